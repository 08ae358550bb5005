package backendtest_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
)

// A primary that loses its power in the middle of a write leaves it on one disk, on the other, on
// both or on none. Nobody was told that it is durable, and afterwards both disks agree.
func TestAWriteThatACrashInterruptedIsOnBothDisksOrOnNone(t *testing.T) {
	for _, reached := range [][]string{{}, {backendtest.EventWriteReachesOwn}, {backendtest.EventWriteReachesPeer}, {backendtest.EventWriteReachesOwn, backendtest.EventWriteReachesPeer}} {
		d := newDRBDPair(t, nil)
		w := d.use(0, true)
		kept := write(t, w)
		require.NoError(t, w.Sync())
		d.w.HoldWrites(true)
		write(t, w)
		require.ErrorIs(t, w.Sync(), backendtest.ErrWaits)
		for _, kind := range reached {
			requireEvent(t, d.w, kind).Do()
		}
		require.ErrorIs(t, w.Sync(), backendtest.ErrWaits)
		d.reboot(0, 1)
		d.w.Settle()
		for i := range 2 {
			require.Equal(t, diskUpToDate, d.status(i).Disk, reached)
			require.Contains(t, d.h[i].DiskStamps(d.id), kept)
		}
		require.Equal(t, d.h[0].DiskStamps(d.id), d.h[1].DiskStamps(d.id))
		require.Equal(t, []backendtest.Stamp{kept}, d.w.Ledger().Acknowledged(d.id))
		d.requireKept(0, 1)
	}
}

// A format waits for its own writes, and does not take them for somebody else's.
func TestAFormatWaitsForItsHeldWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDRBDPair(t, nil)
		require.NoError(t, d.drbd(0).SetPrimary(t.Context(), d.id, false))
		d.w.HoldWrites(true)
		formatted := make(chan error, 1)
		go func() {
			formatted <- d.p[0].Mounter().Format(context.Background(), d.status(0).Path, ext4, false)
		}()
		for range 2 {
			synctest.Wait()
			requireEvent(t, d.w, backendtest.EventWriteEnds).Do()
		}
		require.NoError(t, <-formatted)
		d.w.HoldWrites(false)
		s := d.status(0)
		c, err := d.p[0].Mounter().Probe(t.Context(), s.Path, s.Size)
		require.NoError(t, err)
		require.Equal(t, ext4, c.Found)
	})
}

func TestAHeldWriteIsAcknowledgedWhenItEnds(t *testing.T) {
	d := newDRBDPair(t, nil)
	w := d.use(0, true)
	d.w.HoldWrites(true)
	s := write(t, w)
	requireEvent(t, d.w, backendtest.EventWriteback).Do()
	require.ErrorIs(t, w.Sync(), backendtest.ErrWaits)
	require.Empty(t, d.h[0].DiskStamps(d.id))
	d.w.Settle()
	require.NoError(t, w.Sync())
	require.Equal(t, []backendtest.Stamp{s}, d.h[1].DiskStamps(d.id))
	write(t, w)
	require.ErrorIs(t, w.Sync(), backendtest.ErrWaits)
	d.cut(true)
	require.Empty(t, d.w.Events(), "its I/O is suspended")
	d.w.Handlers()[0].Answer(peerOutdated)
	require.NoError(t, w.Sync())
	d.requireKept(0)
}
