package loopfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.Backend = (*Pool)(nil)

// Kind is the backend's name in the log.
const Kind = "loopfile"

// Config says which directory is the pool.
type Config struct {
	// Dir is the pool's directory.
	Dir string
	// KnownID is the pool id that the host recorded for this directory, empty when the host has
	// never used it. Then the directory must have an id by now: see Init.
	KnownID fsm.PoolID
	// OwnFilesystem is the filesystem that is mounted over the directory; nil without one.
	OwnFilesystem *Filesystem
}

// Pool is one directory of images. It keeps no file open between calls, so it does not prevent its
// filesystem from being unmounted. It is safe for concurrent use.
type Pool struct {
	dir           string // the resolved path
	id            fsm.PoolID
	ownFilesystem *Filesystem
	loops         loopTable
	abilities     abilities

	mu         sync.Mutex
	firstInode *inode // of the pool's directory when it was first opened
}

// inode identifies a file on this host.
type inode struct{ dev, ino uint64 }

// Open returns the pool. A pool that the host has recorded may be absent now; then its operations
// report that.
func Open(cfg Config) (*Pool, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("pool folder %s: %w", cfg.Dir, err)
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	p := &Pool{dir: dir, id: cfg.KnownID, ownFilesystem: cfg.OwnFilesystem}
	if p.id != "" {
		return p, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open pool folder %s: %w", dir, err)
	}
	defer closeRoot(root)
	if p.id, err = readID(root); err != nil {
		return nil, fmt.Errorf("pool %s has no id: is it mounted, and was it ever made a pool? %w", dir, err)
	}
	return p, nil
}

// ID is the pool's identity, also while it is absent.
func (p *Pool) ID() fsm.PoolID { return p.id }

// Kind returns the constant Kind.
func (p *Pool) Kind() string { return Kind }

// Dir returns the resolved path of the pool's directory.
func (p *Pool) Dir() string { return p.dir }

// absentError is why a pool cannot be used now (S12). It may come back.
type absentError struct{ detail string }

func (e *absentError) Error() string { return e.detail }

// open opens the pool's directory, or returns an *absentError: another directory, one without the
// id, or an incomplete one holds nothing that may be trusted (S12).
func (p *Pool) open() (*os.Root, error) {
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

func (p *Pool) verify(root *os.Root) error {
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
func (p *Pool) isFirstSeen(info fs.FileInfo) bool {
	current := inodeOf(info)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.firstInode == nil {
		p.firstInode = &current
	}
	return *p.firstInode == current
}

func inodeOf(info fs.FileInfo) inode {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{}
	}
	return inode{dev: st.Dev, ino: st.Ino}
}

// Facts measures the filesystem under the pool.
func (p *Pool) Facts(context.Context) executor.PoolFacts {
	facts := executor.PoolFacts{ID: p.id}
	root, err := p.open()
	if err != nil {
		facts.Absent, facts.Detail = true, err.Error()
		return facts
	}
	defer closeRoot(root)
	var st unix.Statfs_t
	if err := unix.Statfs(p.dir, &st); err != nil {
		facts.Absent, facts.Detail = true, fmt.Sprintf("measure pool %s: %v", p.dir, err)
		return facts
	}
	facts.Free = int64(st.Bavail) * st.Bsize
	facts.Capacity = int64(st.Blocks) * st.Bsize
	if p.ownFilesystem != nil { // it can grow into the space that is free below
		more, err := p.ownFilesystem.spaceBelow()
		if err != nil {
			facts.Absent, facts.Detail = true, err.Error()
			return facts
		}
		facts.Free, facts.Capacity = facts.Free+more, facts.Capacity+more
	}
	return facts
}

// image is the path of a volume's file within the pool; only for valid ids.
func image(folder string, id fsm.VolumeID) string { return folder + "/" + string(id) + ".img" }

func checkID(id fsm.VolumeID) error {
	if !id.Valid() {
		return fsm.Reject(fsm.NotFound, "%q is not a volume's id", string(id))
	}
	return nil
}
