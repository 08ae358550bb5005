package policy

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// maxExpiriesPerScan bounds the kept copies whose deletion is proposed at one scan.
const maxExpiriesPerScan = 16

// expireKeptCopies deletes kept copies after their retention. The clock decides nothing
// about safety (S27): the state refuses to delete what may be needed.
func (m *Monitor) expireKeptCopies(ctx context.Context) {
	if m.KeptRetention == 0 || m.leaderPolls%pollsPerScan != 0 {
		return
	}
	var due []fsm.SnapshotID
	err := m.Member.View(func(state *fsm.State) error {
		due = expiredKeptCopies(state, m.now(), m.KeptRetention)
		return nil
	})
	if err != nil {
		m.Logger.Warn("cannot read the kept copies", "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*m.Interval)
	defer cancel()
	for _, id := range due {
		cmd := &fsmpb.Command{Actor: "controller/" + m.Name, Body: &fsmpb.Command_DeleteSnapshot{
			DeleteSnapshot: &fsmpb.DeleteSnapshot{SnapshotId: string(id), Superseded: true}}}
		cmd.SchemaVersion = fsm.LeastLevel(cmd)
		if _, err := m.Member.Propose(ctx, cmd); err != nil {
			m.Logger.Warn("a kept copy cannot be deleted yet", "snapshot", id, "error", err)
			continue
		}
		m.Logger.Info("a kept copy is deleted after its retention", "snapshot", id)
	}
}

// expiredKeptCopies are the copies that may be deleted without an operator, and whose retention is over.
func expiredKeptCopies(state *fsm.State, now time.Time, retention time.Duration) (due []fsm.SnapshotID) {
	for n := range state.KeptCopies() {
		if state.MayExpire(n) && now.Sub(n.KeptCopy.Superseded) >= retention && len(due) < maxExpiriesPerScan {
			due = append(due, n.ID)
		}
	}
	return due
}
