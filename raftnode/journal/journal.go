package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

var (
	// ErrConflict: the journal has another command under this index. The directory contains two
	// histories; the process must exit (S26).
	ErrConflict = errors.New("another command is journalled under this index")
	// ErrClosed: the journal was closed.
	ErrClosed = errors.New("the journal is closed")
)

const (
	defaultSegmentBytes = 16 << 20
	defaultRetainBytes  = 1 << 30
	// maxQueuedBlocks is how many blocks the disk may fall behind: 4 MiB before compression.
	maxQueuedBlocks = 64
)

// Options say where the journal is and how much of it is kept.
type Options struct {
	Dir          string // created with mode 0700 when absent
	SegmentBytes int64  // size at which a segment is finished; 16 MiB when zero
	RetainBytes  int64  // the oldest finished segments above this are deleted; 1 GiB when zero
	Logger       *slog.Logger
}

// Entry is one applied command, or a gap.
type Entry struct {
	Index   uint64
	Term    uint64
	Command []byte
	Outcome []byte
	Chain   []byte // the state's link of the entry, linkBytes long; empty: it has none

	Gap    bool   // the content of the indexes Index to GapTo is unknown
	GapTo  uint64 // inclusive
	Reason string // why there is a gap
}

// Journal is a directory of segments. All methods may be called at any time from any goroutine.
type Journal struct {
	log        *slog.Logger
	writerDone chan struct{} // closed when the writer has returned

	mu           sync.Mutex
	wake         *sync.Cond // queue or closing changed
	queue        []writeJob
	queuedBlocks int         // of the queue, which also has jobs of readers that have no block
	current      block       // collects what is appended
	historyStart uint64      // first index of the history while there is no segment
	covered      uint64      // every applied index up to here is in the journal, or in a gap
	replay       replayCheck // digests of what is on disk already, while Raft applies it again
	segments     []segment   // oldest first; the last is appended to
	unwritten    Entry       // the gap that the writer could not write either, as long as its disk fails; GapTo is zero without one
	closing      bool
}

// Open reads the directory, truncates an incomplete tail and appends after it.
func Open(o Options) (*Journal, error) { return start(o, osFilesystem{}) }

func start(o Options, d filesystem) (*Journal, error) {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	if o.RetainBytes <= 0 {
		o.RetainBytes = defaultRetainBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	segments, covered, err := openSegments(o)
	if err != nil {
		return nil, fmt.Errorf("open the journal in %s: %w", o.Dir, err)
	}
	j := &Journal{
		log: o.Logger, writerDone: make(chan struct{}), historyStart: 1, covered: covered,
		segments: segments, current: block{first: covered + 1, last: covered},
	}
	j.wake = sync.NewCond(&j.mu)
	w := &writer{journal: j, options: o, fs: d, written: covered, synced: covered}
	go w.run()
	return j, nil
}

// Append records one applied command. It copies e and does not wait for the disk, with one
// exception: the first of the entries that Raft applies again after a start waits until those in
// the journal were read. An entry that the journal has is skipped; another command under its index
// is ErrConflict. Entries that cannot be written become a gap. After Close it returns ErrClosed.
func (j *Journal) Append(e Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closing {
		return ErrClosed
	}
	if e.Index <= j.covered {
		return j.checkReplay(e)
	}
	j.replay = replayCheck{}
	e.Gap = false
	j.appendRecord(e, e.Index)
	return nil
}

// appendRecord appends a record to the current block, which then covers every index up to last.
func (j *Journal) appendRecord(e Entry, last uint64) {
	j.current.addRecord(e)
	j.current.last, j.covered = last, last
	switch {
	case len(j.current.raw) < blockBytes:
	case j.queuedBlocks < maxQueuedBlocks:
		j.enqueueBlock(writeJob{})
	default:
		j.dropBlock()
	}
}

// enqueueBlock hands the current block to the writer, with the job's other fields.
func (j *Journal) enqueueBlock(job writeJob) {
	job.block = j.current
	if !job.block.isEmpty() {
		j.queuedBlocks++
	}
	j.queue = append(j.queue, job)
	j.current = block{first: j.covered + 1, last: j.covered, raw: newBuffer()}
	j.wake.Signal()
}

// dropBlock replaces the current block by a gap, because the writer is too far behind.
func (j *Journal) dropBlock() {
	dropped := j.current
	j.log.Warn("the journal's disk does not keep up; entries are dropped", "from", dropped.first, "to", dropped.last)
	j.current = block{first: dropped.first, last: dropped.last}
	j.current.addRecord(Entry{Index: dropped.first, Gap: true, GapTo: dropped.last, Reason: "the disk did not keep up"})
}

// Restored records that the state was replaced by a Raft snapshot at index, at start or by an
// install. Indexes up to there that the journal lacks become a gap. Its only error is ErrClosed.
func (j *Journal) Restored(index uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closing:
		return ErrClosed
	case index <= j.covered:
	case j.covered == 0: // the history begins here; nothing is missing from it
		j.covered, j.historyStart, j.current = index, index+1, block{first: index + 1, last: index}
	default:
		j.appendRecord(Entry{Index: j.covered + 1, Gap: true, GapTo: index, Reason: "the state came from a Raft snapshot"}, index)
	}
	return nil
}

// Sync returns when everything applied up to index is on disk, or is a recorded gap. Call it
// before a Raft snapshot at index is taken (S26). Its only error is ErrClosed.
func (j *Journal) Sync(index uint64) error {
	_, err := j.flush(index, writeJob{sync: true})
	return err
}

// flush waits until the writer has processed everything appended so far, and returns up to which
// index that is. The caller asserts that no further command follows up to index: entries between are
// Raft's own and are never appended.
func (j *Journal) flush(index uint64, job writeJob) (covered uint64, err error) {
	job.done = make(chan struct{})
	j.mu.Lock()
	if index > j.covered && !j.closing {
		j.covered, j.current.last = index, index
	}
	if covered = j.covered; j.closing {
		j.mu.Unlock()
		return covered, ErrClosed
	}
	j.enqueueBlock(job)
	j.mu.Unlock()
	<-job.done
	return covered, nil
}

// setUnwritten tells readers of the gap that is in no file yet.
func (j *Journal) setUnwritten(gap Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unwritten = gap
}

// First returns the lowest index from which history is kept; zero without any.
func (j *Journal) First() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case len(j.segments) > 0:
		return j.segments[0].first
	case j.covered >= j.historyStart:
		return j.historyStart
	}
	return 0
}

// Last returns the index up to which history is covered, gaps included; zero without any.
func (j *Journal) Last() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.covered
}

// Close writes and syncs what is buffered, and stops the writer. A second call returns nil.
func (j *Journal) Close() error {
	err := j.Sync(0)
	j.mu.Lock()
	j.closing = true
	j.wake.Signal()
	j.mu.Unlock()
	<-j.writerDone
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}
