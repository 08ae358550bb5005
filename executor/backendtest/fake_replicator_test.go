package backendtest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// A host may take its resource down just before a test has its disk fail.
func TestFailDiskOfAnUnknownResourceIsIgnored(t *testing.T) {
	r := backendtest.NewFakeLink().Side(0)
	require.NotPanics(t, func() { r.FailDisk("hf-1") })
}

// A peer that connects while the handler runs keeps a replica from becoming primary, and
// SetPrimary returns an error.
func TestAPromotionInterruptedByThePeerIsAnError(t *testing.T) {
	const id = fsm.VolumeID("hf-1")
	link := backendtest.NewFakeLink()
	for i := range 2 {
		r := link.Side(i)
		require.NoError(t, r.Configure(t.Context(), executor.ResourceConfig{Volume: id}))
		require.NoError(t, r.CreateMetadata(t.Context(), id))
		require.NoError(t, r.Attach(t.Context(), id))
		require.NoError(t, r.Connect(t.Context(), id, false))
	}
	a := link.Side(0)
	require.NoError(t, a.NewUUID(t.Context(), id))
	link.SetDisconnected(true)
	a.SetHandler(func(context.Context, fsm.VolumeID) (fsmpb.Verdict, error) {
		link.SetDisconnected(false)
		return fsmpb.Verdict_VERDICT_PEER_OUTDATED, nil
	})
	require.ErrorContains(t, a.SetPrimary(t.Context(), id, false), "connected meanwhile")
	primary, _ := a.Primary(id)
	require.False(t, primary)
	require.NoError(t, a.SetPrimary(t.Context(), id, false))
	primary, _ = a.Primary(id)
	require.True(t, primary)
}
