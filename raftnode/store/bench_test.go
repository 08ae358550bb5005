package store

import (
	"fmt"
	"math/rand/v2"
	"os"
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

// BenchmarkOpenUnclean measures the start on a large log after a stop that was in order, and after one that was
// not, when all of it is written anew.
func BenchmarkOpenUnclean(b *testing.B) {
	for _, kind := range kinds {
		for _, stop := range []string{"in order", "killed"} {
			b.Run(fmt.Sprintf("%s/%s", kind, stop), func(b *testing.B) {
				o := options(b.TempDir(), kind)
				o.Dir, o.SegmentSize, o.CacheEntries = o.Dir+"/member", 0, 4096
				s, err := Open(o)
				require.NoError(b, err)
				require.NoError(b, s.Stable.SetUint64([]byte(keyTerm), 1))
				for next := uint64(1); next <= 256<<10; {
					entries := make([]*raft.Log, 4096)
					for i := range entries {
						entries[i] = &raft.Log{Index: next, Term: 1, Data: make([]byte, 512)}
						_, err := rand.NewChaCha8([32]byte{byte(i)}).Read(entries[i].Data)
						require.NoError(b, err)
						next++
					}
					require.NoError(b, s.Logs.StoreLogs(entries))
				}
				for b.Loop() {
					b.StopTimer()
					require.NoError(b, s.Close())
					if stop == "killed" {
						require.NoError(b, os.Remove(s.dir.stoppedPath()))
					}
					b.StartTimer()
					s, err = Open(o)
					require.NoError(b, err)
				}
				require.NoError(b, s.Close())
			})
		}
	}
}
