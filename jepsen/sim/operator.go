package sim

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// operatorCall is something that an operator does now and then, nil when there is nothing to do it to.
func (c *clients) operatorCall() *csiCall {
	s := c.s
	h := s.hosts[s.tape.pick(len(s.hosts))]
	n, known := s.log.state.Node(fsm.NodeID(h.name))
	if !known {
		return nil
	}
	v, found := c.anyReplicated()
	switch k := s.tape.pick(8); {
	case k < 2:
		return operate(fmt.Sprintf("cordon %s %t", h.name, k == 1), &fsmpb.Command{Body: &fsmpb.Command_ScheduleNode{ScheduleNode: &fsmpb.ScheduleNode{NodeId: h.name, HostId: string(n.Host), Cordoned: k == 1}}})
	case k == 7:
		return s.fenceOrUnfence(h)
	case !found:
		return nil
	case k == 2:
		return operate("add-replica "+v.Name, &fsmpb.Command{Body: &fsmpb.Command_AddReplica{AddReplica: &fsmpb.AddReplica{VolumeId: string(v.ID), Reason: "an operator"}}})
	case k == 3:
		return operate("remove-replica "+v.Name+" of "+h.name, &fsmpb.Command{Body: &fsmpb.Command_RemoveReplica{RemoveReplica: &fsmpb.RemoveReplica{VolumeId: string(v.ID), NodeId: h.name, HostId: string(n.Host), Reason: "an operator"}}})
	case k == 4:
		return c.forcePrimary(v, h)
	case k == 5 && len(v.Operations()) > 0:
		id := uint64(v.Operations()[0].ID)
		return operate("retry-operation "+v.Name, &fsmpb.Command{Body: &fsmpb.Command_RetryOperation{RetryOperation: &fsmpb.RetryOperation{OperationId: id}}})
	case k == 6:
		return s.deleteKeptCopy()
	}
	return nil
}

// fenceOrUnfence fences a host that lives and works, or ends that.
func (s *Sim) fenceOrUnfence(h *host) *csiCall {
	cidrs := []string{fmt.Sprintf("10.0.0.%d/32", h.number)}
	if _, fenced := s.log.state.Fence(cidrs[0], fsm.FenceOfOperator); fenced {
		return unfence(cidrs...)
	}
	return operate("fence "+h.name, &fsmpb.Command{Body: &fsmpb.Command_FenceNetwork{FenceNetwork: &fsmpb.FenceNetwork{Cidrs: cidrs}}})
}

func unfence(cidrs ...string) *csiCall {
	return operate("unfence "+cidrs[0], &fsmpb.Command{Body: &fsmpb.Command_UnfenceNetwork{UnfenceNetwork: &fsmpb.UnfenceNetwork{Cidrs: cidrs}}})
}

// anyReplicated is one of the replicated volumes.
func (c *clients) anyReplicated() (*fsm.Volume, bool) {
	var all []*fsm.Volume
	for v := range c.s.log.state.Volumes("") {
		if v.Replicated() {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return nil, false
	}
	return all[c.s.tape.pick(len(all))], true
}

// operate is a command of an operator.
func operate(name string, cmd *fsmpb.Command) *csiCall {
	cmd.Actor = "admin/operator"
	return &csiCall{name: name, do: func(ctx context.Context, m *member, _ *process) error {
		cmd.SchemaVersion = fsm.LeastLevel(cmd)
		_, err := m.Propose(ctx, cmd)
		return err
	}}
}

// forcePrimary decides to go on with one replica; its volume may lose what was acknowledged.
func (c *clients) forcePrimary(v *fsm.Volume, h *host) *csiCall {
	dead := false
	for _, other := range c.s.hosts {
		dead = dead || other != h && !other.world.Up()
	}
	cmd := &fsmpb.Command{Body: &fsmpb.Command_ForcePrimary{ForcePrimary: &fsmpb.ForcePrimary{VolumeId: string(v.ID), NodeId: h.name, Reason: "an operator", PeerDead: dead && c.peerDown(v, h)}}}
	return operate("force-primary "+v.Name+" on "+h.name, cmd)
}

// peerDown tells whether no other host of the volume has power.
func (c *clients) peerDown(v *fsm.Volume, h *host) bool {
	for _, other := range c.s.hosts {
		if n, ok := c.s.log.state.Node(fsm.NodeID(other.name)); ok && other != h && v.Replica(n.Host) != nil && other.world.Up() {
			return false
		}
	}
	return true
}

// deleteKeptCopy deletes one of the copies that hosts kept.
func (s *Sim) deleteKeptCopy() *csiCall {
	for copied := range s.log.state.KeptCopies() {
		return operate("delete-kept "+shortID(string(copied.ID)), &fsmpb.Command{Body: &fsmpb.Command_DeleteSnapshot{DeleteSnapshot: &fsmpb.DeleteSnapshot{SnapshotId: string(copied.ID)}}})
	}
	return nil
}

// noteForced: what an operator forced may lose acknowledged writes. What replicates asynchronously loses none without that (S11).
func (s *Sim) noteForced(cmd *fsmpb.Command, outcome *fsmpb.Outcome) {
	if outcome.GetRejection() != nil {
		return
	}
	if f := cmd.GetForcePrimary(); f != nil {
		s.tolerateLoss(fsm.VolumeID(f.GetVolumeId()))
	}
	for _, g := range outcome.GetGivenUp() {
		s.counts["given up by force"]++
		s.tolerateLoss(fsm.VolumeID(g.GetVolumeId()))
	}
}

func (s *Sim) tolerateLoss(id fsm.VolumeID) {
	s.log.forced[id] = true
	s.world.Ledger().Tolerate(id, backendtest.Tolerance{Loss: true})
}
