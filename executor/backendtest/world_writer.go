package backendtest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
)

var (
	// ErrWaits says that the kernel makes the writer wait: the filesystem is frozen, I/O is
	// suspended, or a disk hangs. Nothing was done yet; the same call is to be made again.
	ErrWaits = errors.New("the writer waits")
	// ErrGone says that what the writer had open does not exist any more.
	ErrGone = errors.New("what the writer had open is gone")

	errReadOnly = errors.New("read-only file system")
	errNoSpace  = errors.New("no space left on device")
)

// Writer is a process of a user that has a file open on a volume.
type Writer struct {
	host       *Host
	pid        int
	path       string // as the kernel names it
	target     target
	filesystem *filesystem // nil: the device itself is open
	readOnly   bool
	epoch      fsm.Epoch
	written    []Stamp    // not acknowledged yet
	waiting    *dirtyPage // on its way to the device that is open
	gone       bool
}

// OpenWriter opens a file on the filesystem that is mounted at a path, or the device node that is
// bound there, for a user that was given the volume under an epoch. The path is in use until Close.
func (h *Host) OpenWriter(path string, epoch fsm.Epoch) (*Writer, error) {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	m := h.topMount(realPath(path))
	if m == nil {
		return nil, fmt.Errorf("nothing is mounted on %s", path)
	}
	h.lastPID++
	w := &Writer{host: h, pid: h.lastPID, path: m.path, target: m.target, filesystem: m.filesystem, readOnly: m.readOnly, epoch: epoch}
	h.writers = append(h.writers, w)
	return w, nil
}

// Close ends the writer's process. What was not synced stays written, and is acknowledged to nobody.
func (w *Writer) Close() {
	w.host.world.change(func() {
		w.gone = true
		w.host.writers = slices.DeleteFunc(w.host.writers, func(other *Writer) bool { return other == w })
	})
}

// Write writes the next stamp: to the filesystem's pages, or to the device. It is not acknowledged
// before Sync.
func (w *Writer) Write() (s Stamp, err error) {
	w.host.world.change(func() { s, err = w.write() })
	return s, err
}

func (w *Writer) write() (s Stamp, err error) {
	switch f := w.filesystem; {
	case w.gone || !w.target.exists():
		return s, ErrGone
	case w.readOnly || f != nil && (f.readOnly || f.failed):
		return s, errReadOnly
	case f != nil && f.frozen():
		return s, ErrWaits
	case stampPlace(w.host.world.ledger.of(w.target.volume).written) >= w.target.size()/BlockBytes:
		return s, errNoSpace
	}
	if w.filesystem == nil {
		return w.writeDirectly()
	}
	s, number := w.host.world.next(w.target.volume, w.host.node, w.epoch)
	w.filesystem.dirty = append(w.filesystem.dirty, dirtyPage{s, number})
	w.written = append(w.written, s)
	return s, nil
}

// writeDirectly writes to the device that is open: the stamp that waits already, or the next.
func (w *Writer) writeDirectly() (Stamp, error) {
	if w.waiting == nil {
		s, number := w.host.world.next(w.target.volume, w.host.node, w.epoch)
		w.waiting = &dirtyPage{s, number}
	}
	page := *w.waiting
	err := w.target.write(page.number, stampBlock(page.stamp))
	if errors.Is(err, errHangs) {
		return Stamp{}, ErrWaits
	}
	w.waiting = nil
	if err != nil {
		return Stamp{}, err
	}
	w.written = append(w.written, page.stamp)
	return page.stamp, nil
}

// Sync makes what this writer wrote durable. Nil acknowledges it; after another error than
// ErrWaits it never will be.
func (w *Writer) Sync() (err error) {
	w.host.world.change(func() { err = w.sync() })
	return err
}

func (w *Writer) sync() error {
	if w.gone || !w.target.exists() {
		return ErrGone
	}
	var err error
	if w.filesystem != nil {
		err = w.filesystem.sync()
	} else {
		err = w.target.flush()
	}
	if errors.Is(err, errHangs) {
		return ErrWaits
	}
	if err == nil {
		w.host.world.acknowledge(w.written)
	}
	w.written = nil
	return err
}

// waits translates what an effect that hangs returns.
func waits(err error) error {
	if errors.Is(err, errHangs) {
		return ErrWaits
	}
	return err
}
