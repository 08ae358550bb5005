package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// job is a block to write, and whether somebody waits for it.
type job struct {
	block block
	sync  bool
	done  chan struct{}
}

// file is a segment that is written to.
type file interface {
	WriteAt(p []byte, off int64) (int, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

// disk is what the writer needs of a filesystem; tests fill it.
type disk interface {
	open(path string) (file, error)
	remove(path string) error
	syncDir(dir string) error
}

type osDisk struct{}

func (osDisk) open(path string) (file, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}
func (osDisk) remove(path string) error { return os.Remove(path) }
func (osDisk) syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writer is the goroutine that compresses and writes. What it cannot write it
// notes as a gap, which goes ahead of the next block that can be written.
type writer struct {
	journal *Journal
	options Options
	disk    disk

	file       file  // the last segment; nil when the next block begins one
	size       int64 // of the file
	syncedSize int64 // what of the file is durable

	written uint64 // indexes up to here are in files
	synced  uint64 // and up to here durable
	gap     Entry  // not written yet; GapTo is zero without one
	buffer  []byte
}

func (w *writer) run() {
	defer close(w.journal.ended)
	w.reopen()
	for {
		work, ok := w.next()
		if !ok {
			break
		}
		if work.block.last >= work.block.first {
			w.write(work.block)
		}
		work.block.release()
		if work.sync {
			w.sync()
		}
		if work.done != nil {
			close(work.done)
		}
	}
	if w.file != nil {
		_ = w.file.Close() // synced, or given up
	}
}

// next waits for work; there is none any more when the journal is closing.
func (w *writer) next() (job, bool) {
	j := w.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.queue) == 0 {
		if j.closing {
			return job{}, false
		}
		j.wake.Wait()
	}
	work := j.queue[0]
	j.queue[0] = job{}
	j.queue = j.queue[1:]
	return work, true
}

// reopen goes on in the last segment.
func (w *writer) reopen() {
	s, ok := w.journal.lastSegment()
	if !ok || s.size >= w.options.SegmentBytes {
		return
	}
	f, err := w.disk.open(s.path)
	if err != nil {
		w.journal.log.Warn("the journal begins a new segment, the last cannot be written to", "file", s.path, "error", err)
		return
	}
	w.file, w.size, w.syncedSize = f, s.size, s.size
}

// write puts a block on disk, behind the gap that is not told yet.
func (w *writer) write(b block) {
	if w.gap.GapTo != 0 {
		told := block{first: w.gap.Index, last: w.gap.GapTo}
		told.add(w.gap)
		pending := w.gap
		w.gap = Entry{}
		if err := w.put(told); err != nil {
			w.gap = pending
			w.lose(b.first, b.last, err)
			return
		}
	}
	if err := w.put(b); err != nil {
		w.lose(b.first, b.last, err)
	}
}

// lose notes what could not be written.
func (w *writer) lose(first, last uint64, err error) {
	if w.gap.GapTo == 0 {
		w.journal.log.Error("the journal cannot be written; its history has a gap", "from", first, "error", err)
		w.gap = Entry{Index: first, Gap: true, Why: "the journal could not be written: " + err.Error()}
	}
	w.gap.Index = min(w.gap.Index, first)
	w.gap.GapTo = max(w.gap.GapTo, last)
}

// put appends one block to the last segment, all of it or nothing.
func (w *writer) put(b block) error {
	if w.file == nil {
		if err := w.begin(b.first); err != nil {
			return err
		}
	}
	w.buffer = b.encode(w.buffer[:0])
	if _, err := w.file.WriteAt(w.buffer, w.size); err != nil {
		return errors.Join(err, w.file.Truncate(w.size))
	}
	w.size += int64(len(w.buffer))
	w.written = b.last
	w.journal.grow(w.size)
	if w.size >= w.options.SegmentBytes {
		w.end()
	}
	return nil
}

// begin makes the segment whose first index is first.
func (w *writer) begin(first uint64) error {
	path := filepath.Join(w.options.Dir, segmentName(first))
	f, err := w.disk.open(path)
	if err != nil {
		return fmt.Errorf("begin a segment: %w", err)
	}
	if err := errors.Join(f.Truncate(0), w.disk.syncDir(w.options.Dir)); err != nil {
		return errors.Join(err, f.Close(), w.disk.remove(path))
	}
	w.file, w.size, w.syncedSize = f, 0, 0
	w.journal.addSegment(segment{first: first, path: path})
	return nil
}

// end finishes the last segment and deletes old ones.
func (w *writer) end() {
	if w.sync(); w.file == nil {
		return
	}
	if err := w.file.Close(); err != nil {
		w.journal.log.Warn("close a journal segment", "error", err)
	}
	w.file = nil
	for _, s := range w.journal.expire(w.options.RetainBytes) {
		if err := w.disk.remove(s.path); err != nil {
			w.journal.log.Warn("an old journal segment cannot be deleted", "file", s.path, "error", err)
		}
	}
}

// sync makes what was written durable. When the disk says that it could not, what
// was not durable before counts as lost, and the segment is left.
func (w *writer) sync() {
	if w.file == nil || w.synced == w.written && w.syncedSize == w.size {
		return
	}
	err := w.file.Sync()
	if err == nil {
		w.synced, w.syncedSize = w.written, w.size
		return
	}
	w.lose(w.synced+1, w.written, err)
	err = errors.Join(w.file.Truncate(w.syncedSize), w.file.Close())
	w.journal.log.Error("a journal segment is given up", "synced", w.synced, "error", err)
	w.file, w.written = nil, w.synced
	w.journal.grow(w.syncedSize)
	if w.syncedSize == 0 {
		if s, ok := w.journal.dropLast(); ok {
			_ = w.disk.remove(s.path) // an empty file says nothing
		}
	}
}
