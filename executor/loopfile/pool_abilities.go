package loopfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
)

// How measurements are made, and for how long they are used.
const (
	rateBytes = 32 << 20
	rateAge   = 10 * time.Minute
	rateName  = tmpDir + "/rate"
)

// abilities are the measured properties of the pool.
type abilities struct {
	dir       *poolDir
	testing   sync.Mutex    // held while sharing is tested
	measuring chan struct{} // held while the rate is measured, which may take long

	mu            sync.Mutex // never held while the pool is read or written
	sharingTested bool
	shares        bool
	copyRate      int64 // bytes a second
	measuredAt    time.Time
}

func newAbilities(dir *poolDir) *abilities {
	return &abilities{dir: dir, measuring: make(chan struct{}, 1)}
}

// SharesBlocks tries to share one block, and caches the result. A pool that cannot be tested now,
// because it is absent, counts as sharing.
func (p *Pool) SharesBlocks() bool { return p.abilities.sharesBlocks() }

func (a *abilities) sharesBlocks() bool {
	a.testing.Lock()
	defer a.testing.Unlock()
	if tested, shares := a.knownSharing(); tested {
		return shares
	}
	shares, err := a.testReflink()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sharingTested, a.shares = err == nil, shares
	return shares
}

func (a *abilities) knownSharing() (tested, shares bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sharingTested, a.shares
}

func (a *abilities) testReflink() (bool, error) {
	root, err := a.dir.open()
	if err != nil {
		return true, err
	}
	defer closeRoot(root)
	return testReflink(root, rateName)
}

// CopyRate measures a synced copy within the pool, in bytes a second, and caches the result.
func (p *Pool) CopyRate(ctx context.Context) (int64, error) {
	rate, err := p.abilities.rate(ctx)
	if err != nil {
		return 0, fmt.Errorf("measure how fast pool %s copies: %w", p.dir, err)
	}
	return rate, nil
}

func (a *abilities) rate(ctx context.Context) (int64, error) {
	select {
	case a.measuring <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-a.measuring }()
	if known := a.knownRate(); known > 0 {
		return known, nil
	}
	rate, err := a.measureRate(ctx)
	if err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.copyRate, a.measuredAt = rate, time.Now()
	return rate, nil
}

// knownRate is the rate that was measured last, 0 when that is too long ago.
func (a *abilities) knownRate() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.measuredAt) >= rateAge {
		return 0
	}
	return a.copyRate
}

func (a *abilities) measureRate(ctx context.Context) (rate int64, err error) {
	root, err := a.dir.open()
	if err != nil {
		return 0, err
	}
	defer closeRoot(root)
	err = withUnnamedFiles(root, rateName, incompressible(rateBytes), func(from, to *os.File) error {
		start := time.Now()
		err := inChunks(ctx, executor.Extent{Length: rateBytes}, func(e executor.Extent) error { return copyInUserspace(from, to, e) })
		if err = errors.Join(err, to.Sync()); err != nil {
			return err
		}
		rate = int64(rateBytes / max(time.Since(start).Seconds(), 1e-6))
		return nil
	})
	return rate, err
}

// incompressible returns data that no filesystem stores as a hole or compresses.
func incompressible(size int) []byte {
	b := make([]byte, size)
	state := uint64(0x9E3779B97F4A7C15)
	for i := range b {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		b[i] = byte(state)
	}
	return b
}
