package store

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// logs is a log store that verifies every entry it reads, and that stays failed after its first
// failure.
//
// Its indexes are contiguous with any store below: IsMonotonic makes Raft empty it when it
// installs a Raft snapshot, instead of leaving a gap, and StoreLogs refuses to create a gap. So
// both log stores follow the same rules at start (S22).
type logs struct {
	inner     raft.LogStore
	guard     *ioGuard
	mark      *highWaterMark
	checksums entryChecksums
	last      atomic.Uint64 // 0 when empty
}

// newLogs wraps a store and reads its last index.
func newLogs(inner raft.LogStore, g *ioGuard, m *highWaterMark, member string) (*logs, error) {
	l := &logs{inner: inner, guard: g, mark: m, checksums: newEntryChecksums(member)}
	last, err := l.LastIndex()
	l.last.Store(last)
	return l, err
}

// IsMonotonic tells Raft that indexes have no gaps here.
func (l *logs) IsMonotonic() bool { return true }

// FirstIndex is the lowest index in the log, 0 when it is empty.
func (l *logs) FirstIndex() (index uint64, err error) {
	err = l.guard.do("read the log's first index", nil, func() (err error) {
		index, err = l.inner.FirstIndex()
		return err
	})
	return index, err
}

// LastIndex is the highest index in the log, 0 when it is empty.
func (l *logs) LastIndex() (index uint64, err error) {
	err = l.guard.do("read the log's last index", nil, func() (err error) {
		index, err = l.inner.LastIndex()
		return err
	})
	return index, err
}

// GetLog reads an entry and verifies that it is what was stored. It returns raft.ErrLogNotFound
// for an index that is not in the log; every other error is final.
func (l *logs) GetLog(index uint64, out *raft.Log) error {
	err := l.guard.do("read from the log", raft.ErrLogNotFound, func() error {
		if err := l.inner.GetLog(index, out); err != nil {
			return err
		}
		if err := l.checksums.verify(index, out); err != nil {
			return fmt.Errorf("entry %d: %w; remedy: %s", index, err, remedyRejoin)
		}
		return nil
	})
	if errors.Is(err, raft.ErrLogNotFound) {
		return raft.ErrLogNotFound // Raft compares it without errors.Is
	}
	return err
}

// StoreLog stores one entry as StoreLogs does.
func (l *logs) StoreLog(log *raft.Log) error { return l.StoreLogs([]*raft.Log{log}) }

// StoreLogs appends entries and returns when they are durable. A gap between them is refused.
func (l *logs) StoreLogs(entries []*raft.Log) error {
	if len(entries) == 0 {
		return l.guard.err()
	}
	return l.guard.write("append to the log", func() error {
		checksummed, err := l.addChecksums(entries)
		if err != nil {
			return err
		}
		if err := l.inner.StoreLogs(checksummed); err != nil {
			return err
		}
		last := entries[len(entries)-1].Index
		l.last.Store(last)
		return l.mark.raise(last)
	})
}

// addChecksums returns copies of the entries with their checksums, and refuses a gap.
func (l *logs) addChecksums(entries []*raft.Log) ([]*raft.Log, error) {
	out := make([]*raft.Log, len(entries))
	last := l.last.Load()
	for i, e := range entries {
		if last != 0 && e.Index != last+1 {
			return nil, fmt.Errorf("entry %d does not follow entry %d", e.Index, last)
		}
		out[i], last = l.checksums.add(e), e.Index
	}
	return out, nil
}

// DeleteRange deletes entries at either end of the log, both bounds included.
func (l *logs) DeleteRange(low, high uint64) error {
	return l.guard.do("delete from the log", nil, func() error {
		first, err := l.inner.FirstIndex()
		if err != nil {
			return err
		}
		last := l.last.Load()
		if last == 0 || low > high || high < first || low > last {
			return nil
		}
		if high < last {
			return l.inner.DeleteRange(low, high) // at the front: compaction
		}
		return l.truncateFrom(low, first, last)
	})
}

// truncateFrom deletes every entry from low on. The high-water mark is lowered first.
func (l *logs) truncateFrom(low, first, last uint64) error {
	keep := low - 1
	if low <= first {
		low, keep = first, 0
	}
	if err := l.mark.lower(keep); err != nil {
		return err
	}
	if err := l.inner.DeleteRange(low, last); err != nil {
		return err
	}
	l.last.Store(keep)
	return nil
}

// cachedLogs is the log with its recent entries in memory. After a failure it does not serve from
// memory any more.
type cachedLogs struct {
	*raft.LogCache
	guard *ioGuard
}

func newCachedLogs(entries int, l *logs) (*cachedLogs, error) {
	cache, err := raft.NewLogCache(entries, l)
	if err != nil {
		return nil, fmt.Errorf("make the log's cache: %w", err)
	}
	return &cachedLogs{cache, l.guard}, nil
}

// GetLog reads an entry from memory or from disk.
func (c *cachedLogs) GetLog(index uint64, out *raft.Log) error {
	if err := c.guard.err(); err != nil {
		return err
	}
	return c.LogCache.GetLog(index, out)
}
