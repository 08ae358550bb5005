package journal

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkAppend measures what a journal costs for each entry of the size of a
// CreateVolume: wall time of Append, and CPU with compression and writing.
func BenchmarkAppend(b *testing.B) {
	j := open(b, b.TempDir(), 16<<20, 64<<20)
	r := rand.New(rand.NewPCG(1, 2))
	entries := make([]Entry, 1024)
	for i := range entries {
		entries[i] = Entry{Term: 1, Command: commandLike(r, 220), Outcome: commandLike(r, 90)}
	}
	b.ReportAllocs()
	before := cpu(b)
	b.ResetTimer()
	var inAppend time.Duration
	for i := range b.N {
		e := entries[i%len(entries)]
		e.Index = uint64(i + 1)
		began := time.Now()
		if err := j.Append(e); err != nil {
			b.Fatal(err)
		}
		inAppend += time.Since(began)
		if i%8192 == 8191 { // as Raft snapshots do
			require.NoError(b, j.Sync(e.Index))
		}
	}
	require.NoError(b, j.Sync(0))
	b.StopTimer()
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/entry")
	b.ReportMetric(float64(inAppend.Nanoseconds())/float64(b.N), "append-ns/entry")
	var size int64
	for _, s := range j.segments {
		size += s.size
	}
	b.ReportMetric(float64(size)/float64(j.covered-j.segments[0].first+1), "disk-B/entry")
}

// commandLike is bytes as protobuf has them: names that repeat, and ids that do not.
func commandLike(r *rand.Rand, n int) []byte {
	words := []string{"pvc-", "\n\x04name", "volume_id\x12", "holdfast.io/pool", "ext4", "node-1", "\x08\x01\x10\x02"}
	var b []byte
	for len(b) < n {
		b = append(b, words[r.IntN(len(words))]...)
		for range 5 {
			b = append(b, "0123456789abcdef"[r.IntN(16)])
		}
	}
	return b[:n]
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
