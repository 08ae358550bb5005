package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// writeJob is a block to write; done, if not nil, is closed when it was processed.
type writeJob struct {
	block block
	sync  bool
	done  chan struct{}
}

// segmentFile is a segment that is appended to.
type segmentFile interface {
	WriteAt(p []byte, off int64) (int, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

// filesystem is what the writer needs of the file system; tests replace it.
type filesystem interface {
	open(path string) (segmentFile, error)
	remove(path string) error
	syncDir(dir string) error
}

type osFilesystem struct{}

func (osFilesystem) open(path string) (segmentFile, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}
func (osFilesystem) remove(path string) error { return os.Remove(path) }
func (osFilesystem) syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writer is the goroutine that compresses and writes blocks. What it cannot write it records as a
// gap, which is written before the next block that can be written.
type writer struct {
	journal *Journal
	options Options
	fs      filesystem

	file       segmentFile // the last segment; nil when the next block starts a new one
	size       int64       // of the file
	syncedSize int64       // how much of the file is durable

	written    uint64 // indexes up to here are written to files
	synced     uint64 // indexes up to here are durable
	pendingGap Entry  // not written yet; GapTo is zero when there is none
	buffer     []byte
}

func (w *writer) run() {
	defer close(w.journal.writerDone)
	w.reopen()
	for {
		job, ok := w.nextJob()
		if !ok {
			break
		}
		if !job.block.isEmpty() {
			w.write(job.block)
		}
		job.block.release()
		if job.sync {
			w.sync()
		}
		w.journal.setUnwritten(w.pendingGap)
		if job.done != nil {
			close(job.done)
		}
	}
	if w.file != nil {
		_ = w.file.Close() // synced, or abandoned
	}
}

// nextJob waits for a job; false when the journal is closing and the queue is empty.
func (w *writer) nextJob() (writeJob, bool) {
	j := w.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.queue) == 0 {
		if j.closing {
			return writeJob{}, false
		}
		j.wake.Wait()
	}
	job := j.queue[0]
	j.queue[0] = writeJob{}
	j.queue = j.queue[1:]
	if !job.block.isEmpty() {
		j.queuedBlocks--
	}
	return job, true
}

// reopen continues the last segment, unless it is full.
func (w *writer) reopen() {
	s, ok := w.journal.lastSegment()
	if !ok || s.size >= w.options.SegmentBytes {
		return
	}
	f, err := w.fs.open(s.path)
	if err != nil {
		w.journal.log.Warn("the journal begins a new segment, the last cannot be written to", "file", s.path, "error", err)
		return
	}
	w.file, w.size, w.syncedSize = f, s.size, s.size
}

// write writes a block, preceded by the pending gap.
func (w *writer) write(b block) {
	if w.pendingGap.GapTo != 0 {
		gapBlock := block{first: w.pendingGap.Index, last: w.pendingGap.GapTo}
		gapBlock.addRecord(w.pendingGap)
		pending := w.pendingGap
		w.pendingGap = Entry{}
		if err := w.appendBlock(gapBlock); err != nil {
			w.pendingGap = pending
			w.recordLoss(b.first, b.last, err)
			return
		}
	}
	if err := w.appendBlock(b); err != nil {
		w.recordLoss(b.first, b.last, err)
	}
}

// recordLoss extends the pending gap by indexes that could not be written.
func (w *writer) recordLoss(first, last uint64, err error) {
	if w.pendingGap.GapTo == 0 {
		w.journal.log.Error("the journal cannot be written; its history has a gap", "from", first, "error", err)
		w.pendingGap = Entry{Index: first, Gap: true, Reason: lossReason(err)}
	}
	w.pendingGap.Index = min(w.pendingGap.Index, first)
	w.pendingGap.GapTo = max(w.pendingGap.GapTo, last)
}

// lossReason is what readers of the gap are told. A full disk is what an operator can mend.
func lossReason(err error) string {
	what := "the journal could not be written"
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		what += " because its disk is full: free space there"
	}
	return what + ": " + err.Error()
}

// appendBlock appends one block to the last segment, completely or not at all.
func (w *writer) appendBlock(b block) error {
	if w.file == nil {
		if err := w.beginSegment(b.first); err != nil {
			return err
		}
	}
	w.buffer = b.encode(w.buffer[:0])
	if _, err := w.file.WriteAt(w.buffer, w.size); err != nil {
		return errors.Join(err, w.file.Truncate(w.size))
	}
	w.size += int64(len(w.buffer))
	w.written = b.last
	w.journal.setLastSize(w.size)
	if w.size >= w.options.SegmentBytes {
		w.finishSegment()
	}
	return nil
}

// beginSegment creates the segment whose first index is first.
func (w *writer) beginSegment(first uint64) error {
	path := filepath.Join(w.options.Dir, segmentName(first))
	f, err := w.fs.open(path)
	if err != nil {
		return fmt.Errorf("begin a segment: %w", err)
	}
	if err := errors.Join(f.Truncate(0), w.fs.syncDir(w.options.Dir)); err != nil {
		return errors.Join(err, f.Close(), w.fs.remove(path))
	}
	w.file, w.size, w.syncedSize = f, 0, 0
	w.journal.addSegment(segment{first: first, path: path})
	return nil
}

// finishSegment finishes the last segment and deletes old ones.
func (w *writer) finishSegment() {
	if w.sync(); w.file == nil {
		return
	}
	if err := w.file.Close(); err != nil {
		w.journal.log.Warn("cannot close a journal segment", "error", err)
	}
	w.file = nil
	for _, s := range w.journal.expire(w.options.RetainBytes) {
		if err := w.fs.remove(s.path); err != nil {
			w.journal.log.Warn("an old journal segment cannot be deleted", "file", s.path, "error", err)
		}
	}
}

// sync makes what was written durable. When that fails, everything that was not durable
// before counts as lost, and the segment is abandoned.
func (w *writer) sync() {
	if w.file == nil || w.synced == w.written && w.syncedSize == w.size {
		return
	}
	err := w.file.Sync()
	if err == nil {
		w.synced, w.syncedSize = w.written, w.size
		return
	}
	w.recordLoss(w.synced+1, w.written, err)
	err = errors.Join(w.file.Truncate(w.syncedSize), w.file.Close())
	w.journal.log.Error("a journal segment could not be synced and is given no more entries", "synced", w.synced, "error", err)
	w.file, w.written = nil, w.synced
	w.journal.setLastSize(w.syncedSize)
	if w.syncedSize == 0 {
		if s, ok := w.journal.removeLastSegment(); ok {
			_ = w.fs.remove(s.path) // an empty file holds no history
		}
	}
}
