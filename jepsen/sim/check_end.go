package sim

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// cleanUp begins what operators do at the end; false when there is nothing.
func (s *Sim) cleanUp() bool {
	if s.clients.open > 0 {
		return false
	}
	if call := s.deleteKeptCopy(); call != nil {
		s.clients.begin(call)
		return true
	}
	if call := s.clients.leftGroup(); call != nil {
		s.clients.begin(call)
		return true
	}
	for n := range s.log.state.Nodes() {
		if n.NoNewReplicas {
			s.clients.begin(operate("uncordon "+string(n.ID), &fsmpb.Command{Body: &fsmpb.Command_ScheduleNode{ScheduleNode: &fsmpb.ScheduleNode{NodeId: string(n.ID), HostId: string(n.Host)}}}))
			return true
		}
	}
	return false
}

// cleanEnd tells whether nothing is left: no volume, no snapshot, no call, nothing on any host.
func (s *Sim) cleanEnd() bool { return s.clients.open == 0 && s.whatIsLeft() == "" }

// whatIsLeft is the first thing that is left, empty when there is nothing.
func (s *Sim) whatIsLeft() string {
	state := s.log.state
	for v := range state.Volumes("") {
		return fmt.Sprintf("volume %s (%s) is left", v.Name, shortID(string(v.ID)))
	}
	for n := range state.Snapshots("") {
		return fmt.Sprintf("snapshot %s is left", shortID(string(n.ID)))
	}
	for g := range state.GroupSnapshots("") {
		return fmt.Sprintf("group snapshot %s is left", shortID(string(g.ID)))
	}
	for f := range state.Fences() {
		return fmt.Sprintf("the fence %s is left", f.CIDR)
	}
	for g := range state.VolumeGroups("") {
		return fmt.Sprintf("volume group %s is left", g.Name)
	}
	for _, h := range s.hosts {
		if audit := h.world.Audit(); !audit.Empty() {
			return fmt.Sprintf("something is left on %s: %+v", h.name, audit)
		}
	}
	return ""
}

// nodeOf is the host's record.
func (s *Sim) nodeOf(h *host) *fsm.Node {
	n, _ := s.log.state.Node(fsm.NodeID(h.name))
	return n
}
