// Package storetest is a disk for the stores of a member that fails as disks do: a write or a sync
// ends with an error, pages count as clean after a failed sync although they never reached the disk,
// and a power failure takes what was not synced. It keeps, of each file, what is on the disk and what
// the page cache holds; the files in the folder are the page cache.
package storetest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// page is the unit in which a disk is written, in bytes.
const page = 4096

// Kind is what is asked of a disk.
type Kind string

// The kinds of operation.
const (
	Begin  Kind = "begin" // of an operation on the log or the vote: it may block here
	Write  Kind = "write"
	Sync   Kind = "sync"
	Rename Kind = "rename"
)

// Operation is one thing that is asked of a disk.
type Operation struct {
	Kind Kind
	Path string // below the disk's folder; an operation's name for Begin
	Size int    // of what is written, in bytes
}

// Fault is what happens to an operation; the zero value is nothing.
type Fault struct {
	Err error
	// Reaches is the share of what was asked that takes place although it fails, from 0 to 1: of the
	// bytes of a write, of the pages of a sync.
	Reaches float64
}

// Disk keeps what is durable of the files below a folder. It implements store.Disk.
type Disk struct {
	// Fault decides on each operation, and may block in one of kind Begin. It is called by several
	// goroutines. Nil: nothing fails.
	Fault func(Operation) Fault

	mu      sync.Mutex
	root    string
	rand    *rand.Rand
	seen    map[string]*inode // by path: what the page cache has under it
	durable map[string]*inode // by path: what a power failure leaves
	renames map[string][]string
}

// inode is a file's content on the disk, and as the page cache had it when it was last synced or
// when that failed: pages that differ from it are dirty, as are those that were written since.
type inode struct {
	disk, clean []byte
	dirty       map[int]bool // by number of the page
}

// New is a disk on which everything in the folder is durable.
func New(root string, seed uint64) (*Disk, error) {
	d := &Disk{
		root: root, rand: rand.New(rand.NewPCG(seed, 1)),
		seen: map[string]*inode{}, durable: map[string]*inode{}, renames: map[string][]string{},
	}
	return d, d.eachFile(func(name string) error {
		content, err := os.ReadFile(filepath.Join(root, name))
		d.seen[name] = &inode{disk: content, clean: content, dirty: map[int]bool{}}
		d.durable[name] = d.seen[name]
		return err
	})
}

// Begin implements store.Disk.
func (d *Disk) Begin(operation string) { d.decide(Operation{Kind: Begin, Path: operation}) }

// WriteAt implements store.Disk.
func (d *Disk) WriteAt(f io.WriterAt, path string, p []byte, off int64) (int, error) {
	fault := d.decide(Operation{Kind: Write, Path: d.name(path), Size: len(p)})
	d.mu.Lock()
	defer d.mu.Unlock()
	file := d.see(d.name(path))
	for at := int(off) / page; at <= (int(off)+len(p)-1)/page; at++ {
		file.dirty[at] = true
	}
	if fault.Err != nil {
		n, err := f.WriteAt(p[:int(fault.Reaches*float64(len(p)))], off)
		return n, errors.Join(fault.Err, err)
	}
	return f.WriteAt(p, off)
}

// Sync implements store.Disk. The operating system is not asked: its own disk is of no interest.
func (d *Disk) Sync(path string, _ func() error) error {
	name := d.name(path)
	fault := d.decide(Operation{Kind: Sync, Path: name})
	d.mu.Lock()
	defer d.mu.Unlock()
	info, err := os.Stat(path)
	if err != nil {
		return errors.Join(fault.Err, err)
	}
	if info.IsDir() {
		d.syncFolder(name, fault.Err == nil)
		return fault.Err
	}
	return errors.Join(fault.Err, d.syncFile(name, fault))
}

// Rename implements store.Disk.
func (d *Disk) Rename(from, to string) error {
	if fault := d.decide(Operation{Kind: Rename, Path: d.name(to)}); fault.Err != nil {
		return fault.Err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := os.Rename(from, to); err != nil {
		return err
	}
	source, name := d.name(from), d.name(to)
	d.seen[name] = d.seen[source]
	delete(d.seen, source)
	folder := filepath.Dir(name)
	d.renames[folder] = append(d.renames[folder], name)
	return nil
}

func (d *Disk) decide(op Operation) Fault {
	if d.Fault == nil {
		return Fault{}
	}
	return d.Fault(op)
}

func (d *Disk) name(path string) string {
	name, err := filepath.Rel(d.root, path)
	if err != nil || strings.HasPrefix(name, "..") {
		panic("a file outside of the disk: " + path)
	}
	return name
}

// see is the file that the page cache has under a name, a new one when it has none.
func (d *Disk) see(name string) *inode {
	if d.seen[name] == nil {
		d.seen[name] = &inode{dirty: map[int]bool{}}
	}
	return d.seen[name]
}

// syncFolder makes renames durable. Those of a failed sync never are: the next one has nothing to do.
func (d *Disk) syncFolder(folder string, ok bool) {
	for _, name := range d.renames[folder] {
		if ok {
			d.durable[name] = d.seen[name]
		}
	}
	delete(d.renames, folder)
}

// syncFile writes the dirty pages to the disk; after a failure they are clean all the same.
func (d *Disk) syncFile(name string, fault Fault) error {
	content, err := os.ReadFile(filepath.Join(d.root, name))
	if err != nil {
		return err
	}
	f := d.see(name)
	if fault.Err == nil && d.durable[name] == nil {
		d.durable[name] = f // a new file's first sync keeps its name too
	}
	f.write(content, func() bool { return fault.Err == nil || d.rand.Float64() < fault.Reaches })
	f.clean = content
	clear(f.dirty)
	return nil
}

// write writes the dirty pages that are to reach the disk.
func (f *inode) write(content []byte, reaches func() bool) {
	disk := make([]byte, len(content))
	copy(disk, f.disk)
	for at := 0; at < len(content); at += page {
		end := min(at+page, len(content))
		dirty := f.dirty[at/page] || len(f.clean) < end || !bytes.Equal(content[at:end], f.clean[at:end])
		if dirty && reaches() {
			copy(disk[at:end], content[at:end])
		}
	}
	f.disk = disk
}

// eachFile visits the regular files below the folder.
func (d *Disk) eachFile(visit func(name string) error) error {
	return filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		return visit(d.name(path))
	})
}

// EIO is the error of a disk that fails.
var EIO error = syscall.EIO
