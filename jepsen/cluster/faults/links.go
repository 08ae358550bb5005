package faults

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/relay"
)

// spoil leads a member's connections through a relay. It is felt when what it is for was counted.
func spoil(ctx context.Context, s *Scene, w relay.Weather, of func(*relay.Count) *atomic.Int64) (*Injection, error) {
	m := s.leaderOrAny(ctx)
	if s.Rand.IntN(3) == 0 {
		m = pick(s, s.Cluster.Nodes())
	}
	count, err := m.Spoil(ctx, w, s.Rand.Uint64())
	if err != nil {
		return nil, err
	}
	pieces, waited, duplicates, resets := count.Pieces.Load(), count.Waited.Load(), count.Duplicates.Load(), count.Resets.Load()
	said, before := fmt.Sprintf("the connections that %s opens go through a relay: %+v", m.ID, w), of(count).Load()
	return &Injection{Member: m.ID, Said: said, Felt: func() bool { return of(count).Load() > before }, End: func(ctx context.Context) (string, error) {
		came := fmt.Sprintf("%d pieces waited for %s together, %d connections were doubled, %d reset", count.Pieces.Load()-pieces,
			time.Duration(count.Waited.Load()-waited).Round(time.Millisecond), count.Duplicates.Load()-duplicates, count.Resets.Load()-resets)
		return came, m.Clear(ctx)
	}}, nil
}

func waited(c *relay.Count) *atomic.Int64 { return &c.Waited }

func delay(ctx context.Context, s *Scene) (*Injection, error) {
	w := relay.Weather{Latency: s.between(time.Millisecond, 300*time.Millisecond), Jitter: s.between(time.Millisecond, 300*time.Millisecond)}
	if s.Rand.IntN(2) == 0 {
		w.Stall, w.StallFor = s.Rand.IntN(50), s.between(100*time.Millisecond, 2*time.Second)
	}
	return spoil(ctx, s, w, waited)
}

func slow(ctx context.Context, s *Scene) (*Injection, error) {
	return spoil(ctx, s, relay.Weather{Rate: pick(s, []int{4 << 10, 32 << 10, 256 << 10})}, waited)
}

func duplicate(ctx context.Context, s *Scene) (*Injection, error) {
	return spoil(ctx, s, relay.Weather{Duplicate: true, Reset: s.Rand.IntN(5)},
		func(c *relay.Count) *atomic.Int64 { return &c.Duplicates })
}
