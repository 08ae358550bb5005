package hostcheck

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// keepFacts is how long facts are answered again: many may ask, and each look costs commands and durable writes.
const keepFacts = 5 * time.Second

// New looks at this machine. Paths that are not absolute are below the working folder, as they are for the daemons.
func New(c Config) *Gatherer {
	for _, path := range []*string{&c.DataDir, &c.Cert, &c.Key, &c.CA} {
		*path = absolute(*path)
	}
	folders := make([]string, 0, len(c.Folders))
	for _, folder := range c.Folders {
		folders = append(folders, absolute(folder))
	}
	c.Folders = folders
	return &Gatherer{Config: c, System: ThisSystem()}
}

func absolute(path string) string {
	if path == "" {
		return ""
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// lookTimeout bounds the commands and dials of one look, and how long is waited for it: less than who asks from another
// host waits. A look that waits for a disk that hangs is bounded by nothing.
const lookTimeout = 15 * time.Second

// Shared gathers for many who ask, one look at a time: while a disk hangs, so does one look, and no more begin.
type Shared struct {
	*Gatherer
	mu      sync.Mutex
	last    *Facts
	at      time.Time
	looking chan struct{} // closed when the look that is under way ends; nil: there is none
	since   time.Time     // when that began
}

// Facts are those of some seconds ago, or new ones. The caller must not change what they point to. The error says that
// the look at the host did not end before ctx, or in time.
func (s *Shared) Facts(ctx context.Context) (Facts, error) {
	last, looking, since := s.lastOrLook(ctx)
	if last != nil {
		return *last, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	select {
	case <-looking:
	case <-ctx.Done():
		return Facts{}, fmt.Errorf("its look at itself, which began %s ago, has not ended: a disk hangs, or a command does: see the kernel's log there: %w", s.Now().Sub(since).Round(time.Second), ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.last, nil
}

// lastOrLook returns the facts of some seconds ago, or the look that is under way, which it begins where there is none.
func (s *Shared) lastOrLook(ctx context.Context) (*Facts, chan struct{}, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looking != nil {
		return nil, s.looking, s.since
	}
	if s.last != nil && s.Now().Sub(s.at) < keepFacts {
		return s.last, nil, s.at
	}
	s.looking, s.since = make(chan struct{}), s.Now()
	go s.look(context.WithoutCancel(ctx), s.looking)
	return nil, s.looking, s.since
}

// look is for all who ask meanwhile, so that it does not end with the one for whom it began.
func (s *Shared) look(ctx context.Context, looking chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	found := s.Gather(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.at, s.looking = found, s.Now(), nil
	close(looking)
}
