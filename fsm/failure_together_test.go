package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// S52: where a group is cut together, a member whose hosts both cannot be asked holds back the others: they freeze without
// their peers. While one of these hosts serves, it says that it is disconnected, and they go on.
func TestS52_AFailureFreezesAMemberThatWaitsForAnother(t *testing.T) {
	w := newRelatedGroup(t)
	w.used(1, "A")
	w.used(2, "A")
	peer := NodeID(w.node(1, "B"))
	require.NotEqual(t, w.node(1, "A"), w.node(2, "A"))
	require.NotEqual(t, w.node(1, "B"), w.node(2, "B"))
	impact := func() Impact {
		for _, v := range w.s.IfStopped(Failure{Nodes: []NodeID{peer}}).Volumes {
			if v.Volume.ID == VolumeID(volumeID(1)) {
				if v.Impact == ImpactFrozen {
					require.Contains(t, v.Reason, volumeID(2))
				}
				return v.Impact
			}
		}
		return ImpactNone
	}
	require.Equal(t, ImpactDegraded, impact())
	w.setUnreachable(w.node(2, "A"), true)
	require.Equal(t, ImpactDegraded, impact(), "its other host can disconnect")
	w.setUnreachable(w.node(2, "B"), true)
	for range 2 {
		require.Equal(t, ImpactFrozen, impact())
	}
}
