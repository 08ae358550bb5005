package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// told is what hosts know of the log's wishes: all of them when they register, are adopted,
// or are told that the incarnation or the feature level is another, and from then on what
// was touched.
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
	all := e.cmd.GetRegisterNode() != nil || e.cmd.GetAdoptNode() != nil || e.cmd.GetReplaceIncarnation() != nil || e.cmd.GetSetFeatureLevel() != nil
	for _, t := range touched {
		if all && t.Volume == "" && t.Snapshot == "" && t.Node != "" {
			h.all(s, t.Node)
		}
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

// check holds that every host was told what changed (S119), once the sweeps under way are
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

// S119, S71: at a higher level a host may be asked for something else, as to keep the last
// copy that it was to remove: it does not go on with what it was asked for before.
func TestS119_AHigherLevelIsTold(t *testing.T) {
	w := newReplicatedAt(t, Level1, protocolC)
	w.twice(controller, remove("n2"))
	w.lose("n1")
	require.Equal(t, WishRemove, w.volumeVerb(1, "n2"))
	hosts := newTold(w.s)
	e := entry{w.index + 1, envelope(admin, "raise", w.index, &fsmpb.SetFeatureLevel{Level: Level2})}
	hosts.hear(w.s, e, w.s.Apply(e.index, e.cmd).Touched)
	require.Equal(t, WishKeep, w.volumeVerb(1, "n2"))
	hosts.check(t, w.s, e)
}
