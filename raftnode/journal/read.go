package journal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// Range yields the journal's entries of the indexes [from, to] in order, gaps included, until fn
// returns false. Zero means no bound. The slices belong to fn. It may be called while entries are
// appended, and yields none appended after the call.
func (j *Journal) Range(from, to uint64, fn func(Entry) bool) error {
	covered, _ := j.flush(0, writeJob{}) // a closed journal is completely on disk
	j.mu.Lock()
	segments, historyStart, unwritten := slices.Clone(j.segments), j.historyStart, j.unwritten
	j.mu.Unlock()
	if to == 0 {
		to = math.MaxUint64
	}
	r := reader{journal: j, from: max(from, 1), to: min(to, covered), fn: fn, next: historyStart, unwritten: unwritten}
	return r.read(segments)
}

// expiredReason is that of a gap which retention made under the reader.
const expiredReason = "it was the oldest and was deleted while the journal was read"

// reader reads consecutive blocks. A range of indexes without a block is missing or damaged, and
// is yielded as a gap.
type reader struct {
	journal  *Journal
	from, to uint64
	fn       func(Entry) bool
	next     uint64 // first index that was not yielded yet

	unwritten Entry // as the journal's when the reading began
	yielded   bool  // fn was called
	stopped   bool  // fn returned false
}

func (r *reader) read(segments []segment) error {
	if len(segments) == 0 {
		r.yieldEnd("nothing could be written")
		return nil
	}
	begin := 0
	for begin+1 < len(segments) && segments[begin+1].first <= r.from {
		begin++
	}
	r.next = segments[begin].first
	for _, s := range segments[begin:] {
		if r.stopped || s.first > r.to {
			return nil
		}
		if err := r.segment(s); err != nil {
			return err
		}
	}
	r.yieldEnd("the end of the journal is damaged or missing: " + filepath.Base(segments[len(segments)-1].path))
	return nil
}

// yieldEnd yields what no segment has: the gap that could not be written, and what is missing beside it.
func (r *reader) yieldEnd(missing string) {
	if gap := r.unwritten; gap.GapTo != 0 {
		r.yieldGap(gap.Index-1, missing)
		r.yieldGap(gap.GapTo, gap.Reason)
	}
	r.yieldGap(r.to, missing)
}

// segment yields the entries of one file.
func (r *reader) segment(s segment) error {
	name := filepath.Base(s.path)
	r.yieldGap(s.first-1, "the segment before "+name+" is damaged or missing")
	err := s.walkBlocks(func(_ int64, h blockHeader, content func() ([]byte, error)) bool {
		r.yieldGap(h.first-1, "segment "+name+" is damaged")
		if h.last >= r.from && h.last >= r.next {
			r.block(h, content, name)
		}
		r.next = max(r.next, h.last+1)
		return !r.stopped && r.next <= r.to
	})
	if first := r.journal.First(); errors.Is(err, os.ErrNotExist) && s.first < first {
		r.expired(first)
		err = nil
	}
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	return nil
}

// expired skips what retention deleted before it was read. It is a gap only after an entry was
// yielded: else the history begins later.
func (r *reader) expired(first uint64) {
	if r.yielded {
		r.yieldGap(first-1, expiredReason)
	}
	r.next = max(r.next, first)
}

// block yields the entries of one block, or a gap if it is damaged.
func (r *reader) block(h blockHeader, content func() ([]byte, error), name string) {
	data, err := content()
	if err == nil {
		data, err = h.decode(data)
	}
	if err == nil {
		_, err = eachRecord(data, func(e Entry) bool { r.yield(e); return !r.stopped })
	}
	if err != nil {
		r.yieldGap(h.last, fmt.Sprintf("segment %s is damaged: %v", name, err))
	}
}

// yieldGap yields a gap from the next index up to last, if that is not empty.
func (r *reader) yieldGap(last uint64, reason string) {
	if last < r.next {
		return
	}
	if !r.stopped && last >= r.from && r.next <= r.to {
		r.journal.log.Warn("the journal has a gap", "from", r.next, "to", last, "reason", reason)
	}
	r.yield(Entry{Index: r.next, Gap: true, GapTo: last, Reason: reason})
	r.next = last + 1
}

// yield passes fn an entry that lies in the range; gaps are clipped to it.
func (r *reader) yield(e Entry) {
	if e.Gap {
		e.Index, e.GapTo = max(e.Index, r.from), min(e.GapTo, r.to)
		if e.Index > e.GapTo {
			return
		}
	}
	if r.stopped || e.Index < r.from || e.Index > r.to {
		return
	}
	r.yielded, r.stopped = true, !r.fn(e)
	r.next = max(r.next, e.Index+1, e.GapTo+1)
}

// replayCheck holds the digests of a range of indexes that Raft applies again.
type replayCheck struct {
	from, to uint64
	digests  map[uint64]commandDigest
	gaps     []Entry
}

// commandDigest identifies a command. The outcome is not part of it: a newer build may encode the
// same outcome in other bytes.
type commandDigest struct {
	term uint64
	size int
	crc  uint32
}

func digestOf(e Entry) commandDigest {
	return commandDigest{term: e.Term, size: len(e.Command), crc: crc32.Checksum(e.Command, castagnoli)}
}

// checkReplay accepts an entry that the journal has, and refuses another one under its index
// (S26). The lock is held; it is released while the journal is read.
func (j *Journal) checkReplay(e Entry) error {
	if e.Index < j.replay.from || e.Index > j.replay.to {
		covered := j.covered
		j.mu.Unlock()
		k := j.loadReplayCheck(e.Index, covered)
		j.mu.Lock()
		j.replay = k
	}
	if digest, ok := j.replay.digests[e.Index]; ok {
		if digest != digestOf(e) {
			return fmt.Errorf("%w: index %d", ErrConflict, e.Index)
		}
		return nil
	}
	for _, g := range j.replay.gaps {
		if g.Index <= e.Index && e.Index <= g.GapTo {
			return nil
		}
	}
	return fmt.Errorf("%w: index %d had no command", ErrConflict, e.Index)
}

// loadReplayCheck reads the digests of a range. What cannot be read counts as a gap and is not
// compared.
func (j *Journal) loadReplayCheck(from, to uint64) replayCheck {
	k := replayCheck{from: from, to: to, digests: map[uint64]commandDigest{}}
	err := j.Range(from, to, func(e Entry) bool {
		if e.Gap {
			k.gaps = append(k.gaps, e)
		} else {
			k.digests[e.Index] = digestOf(e)
		}
		return true
	})
	if first := j.First(); first > from || first == 0 {
		k.gaps = append(k.gaps, Entry{Index: from, GapTo: max(first, 1) - 1}) // before the history begins
	}
	if err != nil {
		j.log.Warn("the journal cannot be compared with what is applied again", "error", err)
		k.gaps = append(k.gaps, Entry{Index: from, GapTo: to})
	}
	return k
}
