package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S56: what the kernel has at this moment, under the generation that the host knows.
func TestS56_AHostSaysHowItsReplicaIsNow(t *testing.T) {
	p := newPair(t)
	id := p.create(protocolC)
	p.waitUpToDate(id)
	for _, m := range p.hosts {
		seen, err := m.e.ReplicaNow(t.Context(), id)
		require.NoError(t, err)
		require.True(t, seen.Connected())
		require.Equal(t, fsmpb.DiskState_DISK_STATE_UP_TO_DATE, seen.Disk)
		require.Equal(t, fsmpb.DiskState_DISK_STATE_UP_TO_DATE, seen.PeerDisk)
		require.NotZero(t, seen.Generation)
		_, err = m.e.ReplicaNow(t.Context(), backendtest.NewID())
		var rejection *fsm.Rejection
		require.ErrorAs(t, err, &rejection)
		require.Equal(t, fsm.NotFound, rejection.Reason)
	}
	p.remove(id)
}
