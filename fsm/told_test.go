package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// told is what hosts know of the log's wishes: all of them when they register, are adopted,
// or the incarnation is another, and from then on what was touched.
type told struct {
	volumes   map[NodeID]map[VolumeID]Wish
	snapshots map[NodeID]map[SnapshotID]SnapshotWish
}

func newTold(s *State) *told {
	h := &told{volumes: map[NodeID]map[VolumeID]Wish{}, snapshots: map[NodeID]map[SnapshotID]SnapshotWish{}}
	for n := range s.Nodes() {
		h.all(s, n.ID)
	}
	return h
}

func (h *told) all(s *State, node NodeID) {
	h.volumes[node], h.snapshots[node] = wishesOf(s, node)
}

func wishesOf(s *State, node NodeID) (map[VolumeID]Wish, map[SnapshotID]SnapshotWish) {
	volumes, snapshots := map[VolumeID]Wish{}, map[SnapshotID]SnapshotWish{}
	for w := range s.Wishes(node) {
		volumes[w.Volume] = w
	}
	for w := range s.SnapshotWishes(node) {
		snapshots[w.Snapshot] = w
	}
	return volumes, snapshots
}

// hear has the hosts read what an entry touched.
func (h *told) hear(s *State, e entry, touched []Touch) {
	if e.cmd.GetReplaceIncarnation() != nil {
		*h = *newTold(s)
	}
	for _, node := range []string{e.cmd.GetRegisterNode().GetNodeId(), e.cmd.GetAdoptNode().GetNodeId()} {
		h.all(s, NodeID(node))
	}
	for _, t := range touched {
		if h.volumes[t.Node] == nil {
			continue
		}
		if w, ok := s.Wish(t.Node, t.Volume); ok {
			h.volumes[t.Node][t.Volume] = w
		} else {
			delete(h.volumes[t.Node], t.Volume)
		}
		if w, ok := s.SnapshotWish(t.Node, t.Snapshot); ok {
			h.snapshots[t.Node][t.Snapshot] = w
		} else {
			delete(h.snapshots[t.Node], t.Snapshot)
		}
	}
}

// check holds that every host was told what changed (I19), once the sweeps under way are
// written.
func (h *told) check(t testing.TB, s *State, e entry) {
	if len(s.cluster.Sweeps) > 0 {
		return
	}
	for n := range s.Nodes() {
		volumes, snapshots := wishesOf(s, n.ID)
		require.Equal(t, volumes, h.volumes[n.ID], "node %s was not told what changed with index %d: %v", n.ID, e.index, e.cmd)
		require.Equal(t, snapshots, h.snapshots[n.ID], "node %s was not told what changed with index %d: %v", n.ID, e.index, e.cmd)
	}
}
