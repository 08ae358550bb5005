package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func TestTheUsageIsOfTheHostThatUsesTheVolume(t *testing.T) {
	w := newWorld(t)
	_, known := w.s.UsageHost(VolumeID(volumeID(1)))
	require.False(t, known)
	w.ready(1, create(1))
	node, known := w.s.UsageHost(VolumeID(volumeID(1)))
	require.True(t, known)
	require.Equal(t, NodeID("n1"), node)

	w = newReplicated(t, protocolC)
	node, known = w.s.UsageHost(VolumeID(volumeID(1)))
	require.True(t, known)
	for range 2 { // whichever host it is published to
		other := NodeID("n1")
		if node == other {
			other = "n2"
		}
		w.ok(controller, publish(1, string(other)))
		node, known = w.s.UsageHost(VolumeID(volumeID(1)))
		require.True(t, known)
		require.Equal(t, other, node)
		w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	}
}
