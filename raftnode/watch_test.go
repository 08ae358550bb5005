package raftnode

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// TestAWideChangeWakesWaitingWatches checks that a change of everything wakes all watches of volumes and snapshots, and of nodes only its own.
func TestAWideChangeWakesWaitingWatches(t *testing.T) {
	h := newWatchHub()
	for name, tc := range map[string]struct {
		interest Interest
		woken    bool
	}{
		"a volume":     {Interest{Volumes: []fsm.VolumeID{"v"}}, true},
		"a snapshot":   {Interest{Snapshot: "s"}, true},
		"a group":      {Interest{Group: "g"}, true},
		"the node":     {Interest{Node: "n1"}, true},
		"another node": {Interest{Node: "n2"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := h.watch(tc.interest)
			defer w.Close()
			h.publish([]fsm.Change{{Node: "n1", WakeWaiters: true}})
			require.Len(t, w.C, map[bool]int{true: 1}[tc.woken])
			changes, all := w.TakeChanges()
			if tc.interest.Node == "n1" {
				require.Equal(t, []fsm.Change{{}}, changes, "its own record")
				require.False(t, all)
			}
		})
	}
}

// TestAWatchIsOfManyVolumes checks that a change of each of them wakes it, until it is closed, and no other does.
func TestAWatchIsOfManyVolumes(t *testing.T) {
	h := newWatchHub()
	w := h.watch(Interest{Volumes: []fsm.VolumeID{"v1", "v2", "v1"}})
	for _, id := range []fsm.VolumeID{"v1", "v2"} {
		h.publish([]fsm.Change{{Volume: id}})
		require.Len(t, w.C, 1)
		<-w.C
		changes, all := w.TakeChanges()
		require.Equal(t, []fsm.Change{{Volume: id}}, changes)
		require.False(t, all)
	}
	h.publish([]fsm.Change{{Volume: "v3"}})
	require.Empty(t, w.C)
	w.Close()
	require.Empty(t, h.byVolume)
}
