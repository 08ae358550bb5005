package backendtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// A target of a synchronisation loses its peer first and its power afterwards: what it confirmed and
// had not flushed is gone, and no bitmap names it, so that only a full copy brings it back.
func TestATargetThatLostItsPeerFirstLosesWhatWasCopied(t *testing.T) {
	const id = fsm.VolumeID("hf-1")
	link := backendtest.NewFakeLink()
	for i := range 2 {
		r := link.Side(i)
		require.NoError(t, r.Configure(t.Context(), executor.ResourceConfig{Volume: id, Protocol: fsmpb.Protocol_PROTOCOL_A}))
		require.NoError(t, r.CreateMetadata(t.Context(), id))
		require.NoError(t, r.Attach(t.Context(), id))
		require.NoError(t, r.Connect(t.Context(), id, false))
	}
	a, b := link.Side(0), link.Side(1)
	require.NoError(t, a.NewUUID(t.Context(), id))
	require.NoError(t, a.SetPrimary(t.Context(), id, false))
	link.SetDisconnected(true)
	acknowledged, err := a.Write(id, "alone")
	require.NoError(t, err)
	require.True(t, acknowledged)
	link.SetSyncTime(time.Hour)
	link.SetDisconnected(false)
	link.SetDisconnected(true)
	b.PowerLoss()
	link.SetSyncTime(time.Millisecond)
	require.NoError(t, b.Attach(t.Context(), id))
	require.NoError(t, b.Connect(t.Context(), id, false))
	link.SetDisconnected(false)
	require.Eventually(t, func() bool {
		s, err := b.Observe(t.Context(), id, 1, "")
		return err == nil && s.Disk == fsmpb.DiskState_DISK_STATE_UP_TO_DATE
	}, time.Minute, time.Millisecond)
	require.NotContains(t, b.DiskContent(id), "alone")
}
