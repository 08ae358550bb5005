package policy

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// maxCancelsPerScan bounds the conversions whose end is proposed at one scan.
const maxCancelsPerScan = 16

// cancelConversions undoes conversions of plain volumes that are not done in time, or never will be: nobody can use
// such a volume meanwhile (S55). The clock decides nothing about safety (S27): an undone conversion leaves the volume as it was.
func (m *Monitor) cancelConversions(ctx context.Context) {
	if m.leaderPolls%pollsPerScan != 0 {
		return
	}
	var due []*fsmpb.CancelConversion
	err := m.Member.View(func(state *fsm.State) error {
		due = overdueConversions(state, m.now(), m.ConvertTimeout)
		return nil
	})
	if err != nil {
		m.Logger.Warn("cannot read the conversions", "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*m.Interval)
	defer cancel()
	for _, c := range due {
		cmd := &fsmpb.Command{Actor: "controller/" + m.Name, Body: &fsmpb.Command_CancelConversion{CancelConversion: c}}
		cmd.SchemaVersion = fsm.LeastLevel(cmd)
		if _, err := m.Member.Propose(ctx, cmd); err != nil {
			m.Logger.Warn("a conversion cannot be undone yet", "volume", c.GetVolumeId(), "error", err)
			continue
		}
		m.Logger.Warn("the conversion of a volume to a replicated one is undone", "volume", c.GetVolumeId())
	}
}

// overdueConversions are those that began longer ago than the timeout, and those that cannot go on.
func overdueConversions(state *fsm.State, now time.Time, timeout time.Duration) (due []*fsmpb.CancelConversion) {
	for v := range state.Operations() {
		if v.Replication == nil || v.Replication.Conversion == nil || v.Replication.Conversion.Undoing || v.ConversionInDoubt() || len(due) == maxCancelsPerScan {
			continue
		}
		op := v.OperationOf(fsm.OpReplicaChange)
		late := op != nil && now.Sub(op.Started) >= timeout
		if late || !canConvert(state, v, op) {
			due = append(due, &fsmpb.CancelConversion{VolumeId: string(v.ID), Began: v.Replication.Conversion.Began})
		}
	}
	return due
}

// canConvert tells whether the conversion may still be done: both hosts are in the cluster, and none of them gave up.
func canConvert(state *fsm.State, v *fsm.Volume, op *fsm.Operation) bool {
	if op == nil || op.State != fsm.OpRunning {
		return false
	}
	seed := v.ActiveReplica(v.Replication.Seed)
	return holdsReplica(state, seed) && holdsReplica(state, v.PeerReplica(v.Replication.Seed))
}

// holdsReplica tells whether the replica is there, or is being made, by a host that is not lost.
func holdsReplica(state *fsm.State, r *fsm.Replica) bool {
	if r == nil || r.State != fsm.ReplicaPlanned && r.State != fsm.ReplicaPresent {
		return false
	}
	n, ok := state.Node(r.Node)
	return ok && n.Host == r.Host && n.State != fsm.NodeLost
}
