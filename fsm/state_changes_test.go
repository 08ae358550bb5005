package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// hostViews is what hosts know of their desired state: all of it when they register, are
// adopted, fenced or no more, or learn that the incarnation or the feature level changed, and from then on
// what was announced as a change.
type hostViews struct {
	volumes   map[NodeID]map[VolumeID]DesiredVolume
	snapshots map[NodeID]map[SnapshotID]DesiredSnapshot
	fenced    map[NodeID]bool
}

func newHostViews(s *State) *hostViews {
	h := &hostViews{volumes: map[NodeID]map[VolumeID]DesiredVolume{}, snapshots: map[NodeID]map[SnapshotID]DesiredSnapshot{}, fenced: map[NodeID]bool{}}
	for n := range s.Nodes() {
		h.readAll(s, n.ID)
	}
	return h
}

func (h *hostViews) readAll(s *State, node NodeID) {
	h.volumes[node], h.snapshots[node] = desiredOf(s, node)
	n, ok := s.Node(node)
	h.fenced[node] = ok && n.IsFenced()
}

func desiredOf(s *State, node NodeID) (map[VolumeID]DesiredVolume, map[SnapshotID]DesiredSnapshot) {
	volumes, snapshots := map[VolumeID]DesiredVolume{}, map[SnapshotID]DesiredSnapshot{}
	for w := range s.DesiredVolumes(node) {
		volumes[w.Volume] = w
	}
	for w := range s.DesiredSnapshots(node) {
		snapshots[w.Snapshot] = w
	}
	return volumes, snapshots
}

// applyChanges has the hosts read what an entry touched.
func (h *hostViews) applyChanges(s *State, e entry, touched []Change) {
	all := e.cmd.GetRegisterNode() != nil || e.cmd.GetAdoptNode() != nil || e.cmd.GetReplaceIncarnation() != nil || e.cmd.GetSetFeatureLevel() != nil
	for _, t := range touched {
		n, ok := s.Node(t.Node)
		turned := ok && h.volumes[t.Node] != nil && n.IsFenced() != h.fenced[t.Node]
		if (all || turned) && t.Volume == "" && t.Snapshot == "" && t.Node != "" {
			h.readAll(s, t.Node)
		}
		if h.volumes[t.Node] == nil {
			continue
		}
		if w, ok := s.DesiredVolume(t.Node, t.Volume); ok {
			h.volumes[t.Node][t.Volume] = w
		} else {
			delete(h.volumes[t.Node], t.Volume)
		}
		if w, ok := s.DesiredSnapshot(t.Node, t.Snapshot); ok {
			h.snapshots[t.Node][t.Snapshot] = w
		} else {
			delete(h.snapshots[t.Node], t.Snapshot)
		}
	}
}

// check holds that every host was told what changed (S119), once the sweeps under way are
// written.
func (h *hostViews) check(t testing.TB, s *State, e entry) {
	if len(s.cluster.Sweeps) > 0 {
		return
	}
	for n := range s.Nodes() {
		volumes, snapshots := desiredOf(s, n.ID)
		require.Equal(t, volumes, h.volumes[n.ID], "node %s was not told what changed with index %d: %v", n.ID, e.index, e.cmd)
		require.Equal(t, snapshots, h.snapshots[n.ID], "node %s was not told what changed with index %d: %v", n.ID, e.index, e.cmd)
	}
}

// S119, S71: at a higher level a host's desired state may be another, as to keep the last copy
// that it was to remove: the host is told, and does not continue with the former one.
func TestS119_RaisingTheLevelAnnouncesChanges(t *testing.T) {
	w := newReplicatedAt(t, Level1, protocolC)
	w.twice(controller, removeReplica("n2"))
	w.loseNode("n1")
	require.Equal(t, GoalRemove, w.volumeGoal(1, "n2"))
	hosts := newHostViews(w.s)
	e := entry{w.index + 1, envelope(admin, "raise", w.index, &fsmpb.SetFeatureLevel{Level: Level2})}
	hosts.applyChanges(w.s, e, w.s.Apply(e.index, e.cmd).Changes)
	require.Equal(t, GoalKeep, w.volumeGoal(1, "n2"))
	hosts.check(t, w.s, e)
}

// S119: a host whose replication address changes is another peer: the hosts of its peers are told, and no others.
func TestS119_AnotherReplicationAddressIsAnnouncedToPeers(t *testing.T) {
	for _, level := range []uint32{Level1, MaxFeatureLevel} {
		w := newReplicatedAt(t, level, protocolC)
		hosts := newHostViews(w.s)
		again := replicating("n1")
		again.Replication.Address = "10.0.9.1"
		e := entry{w.index + 1, envelope("node/n1", "again", w.index, again)}
		hosts.applyChanges(w.s, e, w.s.Apply(e.index, e.cmd).Changes)
		d, ok := w.s.DesiredVolume("n2", VolumeID(volumeID(1)))
		require.True(t, ok)
		require.Equal(t, "10.0.9.1", d.Replication.Peer.Address)
		hosts.check(t, w.s, e)
	}
}
