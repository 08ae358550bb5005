package loopfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/fsm"
)

// poolDir is the pool's directory. No file of it is kept open between calls.
type poolDir struct {
	dir string // the resolved path
	id  fsm.PoolID

	mu         sync.Mutex
	firstInode *inode // of the directory when it was first opened
}

// inode identifies a file on this host.
type inode struct{ dev, ino uint64 }

func inodeOf(info fs.FileInfo) inode {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{}
	}
	return inode{dev: st.Dev, ino: st.Ino}
}

// absentError is why a pool cannot be used now (S12). It may come back.
type absentError struct{ detail string }

func (e *absentError) Error() string { return e.detail }

// isAbsent tells whether the pool cannot be used now.
func (p *poolDir) isAbsent() bool {
	root, err := p.open()
	if err != nil {
		return true
	}
	closeRoot(root)
	return false
}

// open opens the pool's directory, or returns an *absentError: another directory, one without the
// id, or an incomplete one holds nothing that may be trusted (S12).
func (p *poolDir) open() (*os.Root, error) {
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		return nil, &absentError{fmt.Sprintf("pool %s is absent: %v", p.dir, err)}
	}
	if err := p.verify(root); err != nil {
		closeRoot(root)
		return nil, err
	}
	return root, nil
}

func (p *poolDir) verify(root *os.Root) error {
	id, err := readID(root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &absentError{fmt.Sprintf("pool %s is absent: the folder has no %s: is it mounted?", p.dir, idFile)}
	case err != nil:
		return &absentError{fmt.Sprintf("pool %s is absent: %v", p.dir, err)}
	case id != p.id:
		return &absentError{fmt.Sprintf("pool %s is absent: the folder is pool %s, not %s", p.dir, id, p.id)}
	}
	for _, dir := range []string{".", volumesDir, tmpDir} {
		info, err := root.Lstat(dir)
		if err != nil || !info.IsDir() {
			return &absentError{fmt.Sprintf("pool %s is absent: its folder %s is missing", p.dir, dir)}
		}
		if dir == "." && !p.isFirstSeen(info) {
			return &absentError{fmt.Sprintf("pool %s is absent: the folder is another one than at the start; restart the node if that is meant", p.dir)}
		}
	}
	return nil
}

// isFirstSeen records the directory that was opened first, and reports whether this is it: a copy
// of a pool that becomes visible after an unmount has the same id.
func (p *poolDir) isFirstSeen(info fs.FileInfo) bool {
	current := inodeOf(info)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.firstInode == nil {
		p.firstInode = &current
	}
	return *p.firstInode == current
}

// openImage opens a volume's image for reading; Precondition when there is none.
func (p *poolDir) openImage(id fsm.VolumeID) (*os.File, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	return p.openFile(image(volumesDir, id), "image of "+string(id))
}

func (p *poolDir) openSnapshot(id fsm.SnapshotID) (*os.File, error) {
	if err := checkSnapshotID(id); err != nil {
		return nil, err
	}
	return p.openFile(snapshotFile(snapshotsDir, id), "file of "+string(id))
}

func (p *poolDir) openSized(id fsm.SnapshotID) (*os.File, int64, error) {
	f, err := p.openSnapshot(id)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("measure %s: %w", id, err), f.Close())
	}
	return f, info.Size(), nil
}

func (p *poolDir) openFile(name, what string) (*os.File, error) {
	root, err := p.open()
	if err != nil {
		return nil, err
	}
	defer closeRoot(root)
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fsm.Reject(fsm.Precondition, "there is no %s", what)
	case err != nil:
		return nil, fmt.Errorf("open the %s: %w", what, err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fsm.Reject(fsm.Precondition, "the %s is not a regular file", what)
	}
	return f, nil
}

func (p *poolDir) syncFolder(folder string) error {
	root, err := p.open()
	if err != nil {
		return err
	}
	defer closeRoot(root)
	return syncDir(root, folder)
}

func syncDir(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// closeRoot closes a directory.
func closeRoot(root *os.Root) { _ = root.Close() }
