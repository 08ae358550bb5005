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

// ice is a freezer whose freezes last as long as it says.
type ice struct {
	lasts time.Duration
	err   error
}

func (i *ice) Recover(context.Context) error { return nil }

func (i *ice) Freeze(context.Context, fsm.VolumeID, string, time.Time) (executor.Freeze, error) {
	return &block{i.lasts, i.err}, i.err
}

type block struct {
	lasts time.Duration
	err   error
}

func (b *block) Run(ctx context.Context, cut func(context.Context) error) error { return cut(ctx) }
func (b *block) Thaw(context.Context) error                                     { return b.err }
func (b *block) Elapsed() time.Duration                                         { return b.lasts }

func TestTheLongestFreezeIsTold(t *testing.T) {
	registry := prometheus.NewRegistry()
	real := &ice{}
	m, err := measured(real, registry)
	require.NoError(t, err)
	for _, lasts := range []time.Duration{time.Second, 3 * time.Second, 2 * time.Second} {
		real.lasts = lasts
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
