package journal

import (
	"fmt"
	"log/slog"
	"sync"
)

// OpenToRead opens the journal of a member that does not run, without changing anything: an incomplete tail is left out. It is
// closed already, so that it takes no entries.
func OpenToRead(dir string) (*Journal, error) {
	segments, err := listSegments(dir)
	if err != nil {
		return nil, fmt.Errorf("open the journal in %s: %w", dir, err)
	}
	j := &Journal{log: slog.New(slog.DiscardHandler), writerDone: make(chan struct{}), historyStart: 1, segments: segments, closing: true}
	j.wake = sync.NewCond(&j.mu)
	close(j.writerDone)
	for i := len(segments) - 1; i >= 0 && j.covered == 0; i-- {
		if _, j.covered, err = lastWholeBlock(segments[i]); err != nil {
			return nil, fmt.Errorf("open the journal in %s: %w", dir, err)
		}
	}
	return j, nil
}
