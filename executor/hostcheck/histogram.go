package hostcheck

import (
	"slices"
	"time"
)

// Bucket counts durations that are above the bound of the bucket before and not above its own.
type Bucket struct {
	UpTo  time.Duration `json:"up_to,omitempty"` // 0: no bound
	Count uint64        `json:"count"`
}

// bucketBounds double from 100 µs to 3.3 s, as those of holdfast_raft_fsync_seconds do.
var bucketBounds = func() (all []time.Duration) {
	for i := range 16 {
		all = append(all, 100*time.Microsecond<<i)
	}
	return all
}()

// histogram counts durations by bucket, without the empty ones at both ends.
func histogram(took []time.Duration) []Bucket {
	all := make([]Bucket, len(bucketBounds)+1)
	for i, bound := range bucketBounds {
		all[i].UpTo = bound
	}
	for _, d := range took {
		at, _ := slices.BinarySearch(bucketBounds, d)
		all[at].Count++
	}
	return trim(all)
}

// trim leaves out the empty buckets at both ends.
func trim(all []Bucket) []Bucket {
	for len(all) > 0 && all[0].Count == 0 {
		all = all[1:]
	}
	for len(all) > 0 && all[len(all)-1].Count == 0 {
		all = all[:len(all)-1]
	}
	return all
}

// share is a bound that at least the share of all durations is not above; 0: the highest bucket has none.
func share(all []Bucket, of float64) time.Duration {
	var total, below uint64
	for _, b := range all {
		total += b.Count
	}
	for _, b := range all {
		if below += b.Count; float64(below) >= of*float64(total) {
			return b.UpTo
		}
	}
	return 0
}

// Syncs are the durable writes that a controller's Raft log made since the process started.
type Syncs struct {
	Buckets []Bucket `json:"buckets,omitempty"`
}

// NewSyncs is of the counts below and at each bound, as metrics have them; total counts those without a bound too.
func NewSyncs(bounds []time.Duration, cumulative []uint64, total uint64) *Syncs {
	var all []Bucket
	before := uint64(0)
	for i, bound := range bounds {
		all = append(all, Bucket{UpTo: bound, Count: cumulative[i] - before})
		before = cumulative[i]
	}
	return &Syncs{Buckets: trim(append(all, Bucket{Count: total - before}))}
}
