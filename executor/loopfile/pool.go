package loopfile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

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
	*poolDir
	ownFilesystem *Filesystem
	loops         *loopDevices
	abilities     *abilities
}

func newPoolAt(dir string, id fsm.PoolID, ownFilesystem *Filesystem) *Pool {
	p := &poolDir{dir: dir, id: id}
	return &Pool{poolDir: p, ownFilesystem: ownFilesystem, loops: &loopDevices{poolDir: p}, abilities: newAbilities(p)}
}

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
	p := newPoolAt(dir, cfg.KnownID, cfg.OwnFilesystem)
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
