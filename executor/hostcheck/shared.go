package hostcheck

import (
	"context"
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

// Shared gathers for many who ask, one look at a time.
type Shared struct {
	*Gatherer
	mu   sync.Mutex
	last *Facts
	at   time.Time
}

// Facts are those of some seconds ago, or new ones. The caller must not change what they point to.
func (s *Shared) Facts(ctx context.Context) Facts {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || s.Now().Sub(s.at) >= keepFacts {
		s.last = s.Gather(ctx)
		s.at = s.Now()
	}
	return *s.last
}
