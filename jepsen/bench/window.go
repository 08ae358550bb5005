//go:build bench

package bench

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Variant is one system under measurement.
type Variant struct {
	Name string
	Pids []int
	// Run is one operation; it is called by many goroutines at once.
	Run func(ctx context.Context) error
}

// Window is what one variant did in one short stretch of time.
type Window struct {
	Rate     float64 // operations a second
	P50, P99 time.Duration
	CPU      time.Duration // of the variant's processes and the driver, per operation
	OtherCPU float64       // cores that anything else used
	Errors   int
	// Error is the first of the errors.
	Error error
}

// IsQuiet reports whether little else ran.
func (w Window) IsQuiet() bool { return w.OtherCPU < QuietCores }

// Rounds runs every variant once per round, in shuffled order, one at a time.
func Rounds(ctx context.Context, rounds, inFlight int, warm, length time.Duration, variants ...Variant) map[string][]Window {
	all := map[string][]Window{}
	for range rounds {
		for _, i := range rand.Perm(len(variants)) {
			v := variants[i]
			run(ctx, v, inFlight, warm)
			all[v.Name] = append(all[v.Name], run(ctx, v, inFlight, length))
		}
	}
	return all
}

func run(ctx context.Context, v Variant, inFlight int, length time.Duration) Window {
	ctx, cancel := context.WithTimeout(ctx, length+10*time.Second)
	defer cancel()
	var (
		mu        sync.Mutex
		latencies []time.Duration
		failed    int
		first     error
		wg        sync.WaitGroup
	)
	own0, machine0 := cpuOf(v.Pids)
	began := time.Now()
	for range inFlight {
		wg.Go(func() {
			mine, errs, err := work(ctx, v, began.Add(length))
			mu.Lock()
			defer mu.Unlock()
			latencies, failed = append(latencies, mine...), failed+errs
			first = cmp.Or(first, err)
		})
	}
	wg.Wait()
	took := time.Since(began)
	own1, machine1 := cpuOf(v.Pids)
	w := summary(latencies, took, own1-own0, machine1-machine0)
	w.Errors, w.Error = failed, first
	return w
}

func work(ctx context.Context, v Variant, until time.Time) (latencies []time.Duration, failed int, first error) {
	for time.Now().Before(until) {
		began := time.Now()
		if err := v.Run(ctx); err != nil {
			failed++
			first = cmp.Or(first, err)
			continue
		}
		latencies = append(latencies, time.Since(began))
	}
	return latencies, failed, first
}

func summary(latencies []time.Duration, took, own, machine time.Duration) Window {
	slices.Sort(latencies)
	w := Window{OtherCPU: max(0, (machine-own).Seconds()/took.Seconds())}
	if n := len(latencies); n > 0 {
		w.Rate = float64(n) / took.Seconds()
		w.P50, w.P99 = latencies[n/2], latencies[n*99/100]
		w.CPU = own / time.Duration(n)
	}
	return w
}

// Paired is the median, least and greatest of f over the rounds of two variants;
// quiet counts the rounds in which both windows were quiet, and takes only those
// when there are at least four of them.
func Paired(a, b []Window, f func(a, b Window) float64) (median, least, greatest float64, quiet int) {
	var all, calm []float64
	for i := range min(len(a), len(b)) {
		x := f(a[i], b[i])
		all = append(all, x)
		if a[i].IsQuiet() && b[i].IsQuiet() {
			calm = append(calm, x)
		}
	}
	if len(calm) >= 4 {
		all = calm
	}
	slices.Sort(all)
	return all[len(all)/2], all[0], all[len(all)-1], len(calm)
}

// Median of any ordered figures of the windows.
func Median[T ~int64 | ~float64](windows []Window, f func(Window) T) T {
	values := make([]T, 0, len(windows))
	for _, w := range windows {
		values = append(values, f(w))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
