package fsm

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// BenchmarkApplyWithChain: what the chain adds to Apply of a create. Level 2 has none.
func BenchmarkApplyWithChain(b *testing.B) {
	for _, level := range []uint32{Level2, Level3} {
		b.Run(fmt.Sprintf("level-%d", level), func(b *testing.B) {
			w := newWorldAt(b, level)
			commands := make([]*fsmpb.Command, b.N)
			for n := range commands {
				commands[n] = envelope("controller/c1", fmt.Sprintf("request %d", n), w.index, smallCreate(n+1))
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			b.ReportAllocs()
			b.ResetTimer()
			before := threadCPU()
			for _, cmd := range commands {
				w.index++
				if err := Err(w.s.Apply(w.index, cmd).Outcome); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((threadCPU()-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}
