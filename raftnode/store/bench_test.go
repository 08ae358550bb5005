package store

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// BenchmarkStoreLogs measures an append of one entry with everything that this
// package puts around the log store. On a folder in memory the disk costs nothing,
// so what is left is CPU.
func BenchmarkStoreLogs(b *testing.B) {
	for _, kind := range kinds {
		for _, batch := range []int{1, 32} {
			b.Run(fmt.Sprintf("%s/batch of %d", kind, batch), func(b *testing.B) {
				o := options(fastDir(b), kind)
				o.SegmentSize, o.CacheEntries = 16<<20, 4096
				s, err := Open(o)
				require.NoError(b, err)
				defer func() { require.NoError(b, s.Close()) }()
				b.ReportAllocs()
				next := uint64(1)
				for b.Loop() {
					entries := make([]*raft.Log, batch)
					for i := range entries {
						entries[i] = &raft.Log{Index: next, Term: 1, Data: make([]byte, 256)}
						next++
					}
					require.NoError(b, s.Logs.StoreLogs(entries))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(next-1), "ns/entry")
			})
		}
	}
}
