package relay

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Weather is what a relay does to connections. The zero value passes everything on at once.
type Weather struct {
	Latency time.Duration // of every piece of data, in each direction
	Jitter  time.Duration // up to so much more
	// Rate is how many bytes a second pass in each direction of a connection; 0: all.
	Rate int
	// Stall is in how many of 1000 pieces all that follows waits for StallFor, as TCP does whose packets are lost.
	Stall    int
	StallFor time.Duration
	// Reset is in how many of 1000 pieces the connection is reset instead.
	Reset int
	// Duplicate opens a second connection beside each new one, on which the same bytes arrive and whose answers are dropped.
	Duplicate bool
}

// fate is what happens to one piece of data.
type fate struct {
	pace  time.Duration // until the link takes the next piece
	wait  time.Duration // from then until it arrives
	reset bool
}

// dice chooses fates from a seed.
type dice struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{rand: rand.New(rand.NewPCG(seed, 0))} }

// fateOf chooses what happens to a piece of so many bytes.
func (d *dice) fateOf(w Weather, size int) fate {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := fate{wait: w.Latency, reset: d.rand.IntN(1000) < w.Reset}
	if w.Jitter > 0 {
		f.wait += time.Duration(d.rand.Int64N(int64(w.Jitter)))
	}
	if w.Rate > 0 {
		f.pace = time.Duration(size) * time.Second / time.Duration(w.Rate)
	}
	if d.rand.IntN(1000) < w.Stall {
		f.wait += w.StallFor
	}
	return f
}
