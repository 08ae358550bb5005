package loopfile

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
)

// countedContext is a context that is over once it was looked at so many times.
type countedContext struct {
	context.Context
	left int
}

func (p *countedContext) Err() error {
	if p.left--; p.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// What was found before the deadline is kept, and the next request continues there.
func TestAnInterruptedMapIsResumed(t *testing.T) {
	for name, dir := range map[string]func(t testing.TB) string{
		"by content": func(t testing.TB) string { needLoops(t); return t.TempDir() },
		"by place":   supportsReflink,
	} {
		t.Run(name, func(t *testing.T) {
			p := openPoolIn(t, filepath.Join(dir(t), "pool"))
			h := snapshotHarness(p, p.Dir())
			id := backendtest.NewID()
			require.NoError(t, p.Create(t.Context(), id, 64<<20))
			for at := int64(0); at < 64<<20; at += 4 << 20 {
				h.Write(t, id, at, []byte("before"))
			}
			base, target := backendtest.NewSnapshotID(), backendtest.NewSnapshotID()
			require.NoError(t, p.TakeSnapshot(t.Context(), id, base, nil))
			h.Write(t, id, 63<<20, []byte("changed"))
			require.NoError(t, p.TakeSnapshot(t.Context(), id, target, nil))
			testExtents(t, func(ctx context.Context, from int64, yield func(executor.Extent) bool) error {
				return p.Delta(ctx, base, target, from, yield)
			})
			testExtents(t, func(ctx context.Context, from int64, yield func(executor.Extent) bool) error {
				return p.Map(ctx, target, from, yield)
			})
		})
	}
}

// testExtents asks in ever longer pieces, and requires that they are what is said at once.
func testExtents(t *testing.T, ask func(ctx context.Context, from int64, yield func(executor.Extent) bool) error) {
	t.Helper()
	collect := func(into *[]executor.Extent) func(executor.Extent) bool {
		return func(e executor.Extent) bool { *into = append(*into, e); return true }
	}
	var want, got []executor.Extent
	require.NoError(t, ask(t.Context(), 0, collect(&want)))
	require.NotEmpty(t, want)
	from, interruptions := int64(0), 0
	for {
		ctx := &countedContext{Context: t.Context(), left: 1 + interruptions}
		err := ask(ctx, from, collect(&got))
		if err == nil {
			break
		}
		var part *executor.InterruptedError
		require.ErrorAs(t, err, &part)
		require.GreaterOrEqual(t, part.Offset, from)
		from, interruptions = part.Offset, interruptions+1
		require.Less(t, interruptions, 1000)
	}
	require.Equal(t, want, got)
}
