package lvm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// BenchmarkSteps measures what an orchestrator waits for, each step in milliseconds.
func BenchmarkSteps(b *testing.B) {
	p := newTestPool(b)
	ctx := b.Context()
	require.NoError(b, p.Create(ctx, backendtest.NewID(), 16<<20)) // the first looks for lost devices
	all := map[string]time.Duration{}
	took := func(what string, do func() error) {
		began := time.Now()
		require.NoError(b, do(), what)
		all[what] += time.Since(began)
	}
	for b.Loop() {
		id, clone, snapshot := backendtest.NewID(), backendtest.NewID(), backendtest.NewSnapshotID()
		took("create", func() error { return p.Create(ctx, id, 16<<20) })
		took("attach", func() error { _, err := p.Activate(ctx, id, false); return err })
		took("observe", func() error { _, err := p.Observe(ctx, id); return err })
		took("cut", func() error { return p.TakeSnapshot(ctx, id, snapshot, nil) })
		took("clone", func() error { return p.CreateFrom(ctx, clone, 16<<20, fsm.Source{Snapshot: snapshot}, 0, nil) })
		took("grow", func() error { return p.Expand(ctx, id, 32<<20) })
		took("map", func() error { return p.Map(ctx, snapshot, 0, func(executor.Extent) bool { return true }) })
		took("detach", func() error { return p.Deactivate(ctx, id) })
		took("remove", func() error { return p.Remove(ctx, id) })
	}
	for what, sum := range all {
		b.ReportMetric(float64(sum.Milliseconds())/float64(b.N), what+"-ms/op")
	}
}
