//go:build bench

package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

const gi = 1 << 30

// BenchmarkCreateToMounted makes and mounts an ext4 volume of 1 GiB through CSI
// (create, publish, stage), with system calls and mkfs alone, and with the tools.
func BenchmarkCreateToMounted(b *testing.B) {
	c := startHoldfast(b)
	co := c.NewCO()
	for range b.N {
		const n = 21
		var full, least, tools []time.Duration
		for i := range n + 1 {
			name := fmt.Sprintf("m%d", i)
			f, l, t := throughCSI(b, co, name), alone(b, floorSteps, c.Mounts(), name+"f"), alone(b, shellSteps, c.Mounts(), name+"t")
			if i == 0 {
				continue // the first pays for connections and cold caches
			}
			full, least, tools = append(full, f), append(least, l), append(tools, t)
		}
		b.ReportMetric(ratio(full, least), "xFloor")
		b.ReportMetric(ratio(full, tools), "xBinaries")
		b.ReportMetric(ms(middle(full)), "p50-ms")
		b.ReportMetric(ms(middle(least)), "floor-p50-ms")
		b.ReportMetric(ms(middle(tools)), "tools-p50-ms")
	}
}

func throughCSI(b *testing.B, co *harness.CO, name string) time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	v, err := co.Create(ctx, harness.Spec{Name: name, Size: gi})
	require.NoError(b, err)
	require.NoError(b, co.Publish(ctx, v, "n1"))
	require.NoError(b, co.Stage(ctx, v))
	took := time.Since(began)
	require.NoError(b, co.UnbindUnstageUnpublish(ctx, v))
	require.NoError(b, co.Delete(ctx, v))
	return took
}

func alone(b *testing.B, make func(dir, name string, size int64) (floorVolume, error), dir, name string) time.Duration {
	b.Helper()
	began := time.Now()
	m, err := make(dir, name, gi)
	took := time.Since(began)
	m.close()
	require.NoError(b, err)
	return took
}

// ratio is the median of the pairs' ratios.
func ratio(a, b []time.Duration) float64 {
	var all []float64
	for i := range a {
		all = append(all, float64(a[i])/float64(b[i]))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func middle(d []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(d))[len(d)/2]
}

// BenchmarkHundredAtOnce creates 100 volumes at once, as the provisioner's 100
// workers do, against the rate at which 16 workers of the floor make, mount and
// remove them.
func BenchmarkHundredAtOnce(b *testing.B) {
	c := startHoldfast(b)
	for range b.N {
		allowed := hundredOfTheFloor(b, c)
		created, errs := hundred(b, c, "bare", false)
		up, upErrs := hundred(b, c, "up", true)
		b.ReportMetric(float64(errs+upErrs), "errors")
		b.ReportMetric(created.Seconds()/allowed.Seconds(), "xFloor")
		b.ReportMetric(up.Seconds()/allowed.Seconds(), "mounted-xFloor")
		b.ReportMetric(created.Seconds(), "s")
	}
}

// hundred makes each call once, without repeating: every refusal is an error.
func hundred(b *testing.B, c *harness.Cluster, prefix string, mount bool) (time.Duration, int64) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	defer cancel()
	co := c.NewCO()
	var failed atomic.Int64
	volumes := make([]*harness.Volume, 100)
	before := co.Retries.Load()
	began := time.Now()
	var wg sync.WaitGroup
	for i := range volumes {
		wg.Go(func() {
			v, err := co.Create(ctx, harness.Spec{Name: fmt.Sprintf("%s-%d", prefix, i), Size: gi})
			if err == nil && mount {
				if err = co.Publish(ctx, v, "n1"); err == nil {
					err = co.Stage(ctx, v)
				}
			}
			if err != nil {
				failed.Add(1)
			}
			volumes[i] = v
		})
	}
	wg.Wait()
	took := time.Since(began)
	failed.Add(int64(co.Retries.Load() - before))
	for _, v := range volumes {
		if v != nil && mount {
			require.NoError(b, co.UnbindUnstageUnpublish(ctx, v))
		}
		if v != nil {
			require.NoError(b, co.Delete(ctx, v))
		}
	}
	return took, failed.Load()
}

func hundredOfTheFloor(b *testing.B, c *harness.Cluster) time.Duration {
	b.Helper()
	began := time.Now()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := next.Add(1); i <= 100; i = next.Add(1) {
				m, err := floorSteps(c.Mounts(), fmt.Sprintf("floor%d", i), gi)
				m.close()
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return time.Since(began)
}
