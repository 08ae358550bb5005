package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// fakeFreezer is a freezer whose freezes last for a given time.
type fakeFreezer struct {
	duration time.Duration
	err      error
}

func (i *fakeFreezer) Frozen(fsm.VolumeID) bool { return false }

func (i *fakeFreezer) Recover(context.Context) error { return nil }

func (i *fakeFreezer) Freeze(context.Context, fsm.VolumeID, string, time.Time) (executor.Freeze, error) {
	return &fakeFreeze{i.duration, i.err}, i.err
}

type fakeFreeze struct {
	duration time.Duration
	err      error
}

func (b *fakeFreeze) Run(ctx context.Context, take func(context.Context) error) error {
	return take(ctx)
}
func (b *fakeFreeze) Thaw(context.Context) error { return b.err }
func (b *fakeFreeze) Elapsed() time.Duration     { return b.duration }

func TestTheLongestFreezeIsReported(t *testing.T) {
	registry := prometheus.NewRegistry()
	real := &fakeFreezer{}
	m, err := newMeteredFreezer(real, registry)
	require.NoError(t, err)
	for _, lasts := range []time.Duration{time.Second, 3 * time.Second, 2 * time.Second} {
		real.duration = lasts
		f, err := m.Freeze(t.Context(), "", "", time.Time{})
		require.NoError(t, err)
		for range 2 { // a thaw may be repeated
			require.NoError(t, f.Thaw(t.Context()))
		}
	}
	require.Equal(t, 3*time.Second, m.longest)
	count, err := testutil.GatherAndCount(registry, "holdfast_freeze_seconds", "holdfast_freeze_longest_seconds")
	require.NoError(t, err)
	require.Equal(t, 2, count)
	real.err = errors.New("it does not freeze")
	_, err = m.Freeze(t.Context(), "", "", time.Time{})
	require.Error(t, err)
}
