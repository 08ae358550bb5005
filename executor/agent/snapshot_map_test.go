package agent_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

func TestAMapOfASnapshotComesInPages(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	for i := range int64(5) {
		w.pool.Write(id, i*3*backendtest.BlockBytes, []byte("x"))
	}
	base := w.takeSnapshot(id)
	w.pool.Write(id, 0, []byte("y"))
	target := w.takeSnapshot(id)
	var all []executor.Extent
	from := int64(0)
	for more := true; more; {
		page, err := w.e.Map(t.Context(), "", base, from, 2)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Extents), 2)
		all = append(all, page.Extents...)
		from, more = page.NextOffset, page.More
	}
	require.Len(t, all, 5)
	delta, err := w.e.Map(t.Context(), base, target, 0, 10)
	require.NoError(t, err)
	require.False(t, delta.More)
	require.Equal(t, []executor.Extent{{Offset: 0, Length: backendtest.BlockBytes}}, delta.Extents)
	_, err = w.e.Map(t.Context(), "", backendtest.NewSnapshotID(), 0, 10)
	require.Equal(t, fsm.NotFound, reasonOf(err))
	_, err = w.e.Map(t.Context(), "", "hs-../x", 0, 10)
	require.Equal(t, fsm.NotFound, reasonOf(err))
}

// A host that runs out of time for a page returns how far it got, and no error.
func TestASlowMapReportsItsNextOffset(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	w.pool.Write(id, 3*backendtest.BlockBytes, []byte("x"))
	snapshot := w.takeSnapshot(id)
	w.e.MapTimeout = time.Nanosecond
	page, err := w.e.Map(t.Context(), "", snapshot, backendtest.BlockBytes, 10)
	require.NoError(t, err)
	require.True(t, page.More)
	require.GreaterOrEqual(t, page.NextOffset, int64(backendtest.BlockBytes))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.e.Map(gone, "", snapshot, 0, 10)
	require.ErrorIs(t, err, context.Canceled, "whoever asked is gone")
}

// slowDisk compares 25 MB a second, and finds one block at the end of 1 GiB.
type slowDisk struct{ *backendtest.FakeBackend }

var atTheEnd = executor.Extent{Offset: 1<<30 - backendtest.BlockBytes, Length: backendtest.BlockBytes}

func (slowDisk) Delta(ctx context.Context, _, _ fsm.SnapshotID, from int64, yield func(executor.Extent) bool) error {
	const step = 1 << 20
	for at := from; at < 1<<30; at += step {
		select {
		case <-time.After(step * time.Second / 25e6):
		case <-ctx.Done():
			return &executor.InterruptedError{Offset: at, Cause: ctx.Err()}
		}
	}
	yield(atTheEnd)
	return nil
}

// Each page of a long comparison comes within the minute that its caller waits, and nothing is
// compared twice, however little was found.
func TestALongComparisonComesInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStoppedHost(t)
		w.configure = func(cfg *agent.Config) { cfg.Pools = []executor.Backend{slowDisk{w.pool}} }
		w.build(nil, w.testCluster)
		id, base, target := backendtest.NewID(), backendtest.NewSnapshotID(), backendtest.NewSnapshotID()
		require.NoError(t, w.pool.Create(t.Context(), id, 1<<30))
		for _, snapshot := range []fsm.SnapshotID{base, target} {
			require.NoError(t, w.pool.TakeSnapshot(t.Context(), id, snapshot, nil))
		}
		began, pages := time.Now(), 0
		page := executor.MapPage{More: true}
		for ; page.More; pages++ {
			from, asked := page.NextOffset, time.Now()
			var err error
			page, err = w.e.Map(t.Context(), base, target, from, 10)
			require.NoError(t, err)
			require.Less(t, time.Since(asked), 30*time.Second)
			require.Greater(t, page.NextOffset, from)
		}
		require.Equal(t, []executor.Extent{atTheEnd}, page.Extents)
		require.Equal(t, 3, pages)
		require.Less(t, time.Since(began), 45*time.Second, "1 GiB was read once")
	})
}
