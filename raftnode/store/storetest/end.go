package storetest

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Kill copies the files to another folder as the next process finds them after this one was killed:
// the page cache outlives it, and so does what is not on the disk. The disk of that folder is
// returned. The process that still has this one can do what it likes.
func (d *Disk) Kill(to string) (*Disk, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := &Disk{root: to, rand: rand.New(rand.NewPCG(d.rand.Uint64(), 1)), seen: map[string]*inode{}, durable: map[string]*inode{}, renames: map[string][]string{}}
	copies := map[*inode]*inode{nil: nil}
	for _, pair := range []struct{ from, to map[string]*inode }{{d.seen, next.seen}, {d.durable, next.durable}} {
		for name, f := range pair.from {
			if copies[f] == nil && f != nil {
				copies[f] = &inode{f.disk, f.clean, maps.Clone(f.dirty)}
			}
			pair.to[name] = copies[f]
		}
	}
	maps.Copy(next.renames, d.renames)
	return next, d.copyTo(to, func(name string) ([]byte, bool, error) {
		content, err := os.ReadFile(filepath.Join(d.root, name))
		return content, true, err
	})
}

// LosePower copies the files to another folder as they are on the disk. Of the pages that were never
// synced, the share that is given reached it by themselves.
func (d *Disk) LosePower(to string, reached float64) (*Disk, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.copyTo(to, func(name string) ([]byte, bool, error) {
		f := d.durable[name]
		if f == nil {
			content, err := os.ReadFile(filepath.Join(d.root, name))
			return content, !d.written(name), err
		}
		return d.left(name, f, reached)
	})
	if err != nil {
		return nil, err
	}
	next, err := New(to, d.rand.Uint64())
	return next, err
}

// written tells whether the disk was asked to write the file: what others wrote is durable.
func (d *Disk) written(name string) bool {
	return d.seen[name] != nil || filepath.Ext(name) == ".wal" || filepath.Ext(name) == ".tmp"
}

// left is what a power failure leaves of a file that is durable. The pages of raft.db reach the disk
// with a sync only: bbolt never writes its meta page before the others are durable.
func (d *Disk) left(name string, f *inode, reached float64) ([]byte, bool, error) {
	if f != d.seen[name] || reached == 0 || filepath.Ext(name) == ".db" {
		return f.disk, true, nil
	}
	content, err := os.ReadFile(filepath.Join(d.root, name))
	if err != nil {
		return nil, false, err
	}
	torn := inode{f.disk, f.clean, f.dirty}
	torn.write(content, func() bool { return d.rand.Float64() < reached })
	return torn.disk, true, nil
}

// copyTo makes the folder from what content returns of each file.
func (d *Disk) copyTo(to string, content func(name string) ([]byte, bool, error)) error {
	err := d.eachFolder(func(name string) error { return os.MkdirAll(filepath.Join(to, name), 0o700) })
	return errors.Join(err, d.eachFile(func(name string) error {
		data, there, err := content(name)
		if err != nil || !there {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o600)
	}))
}

func (d *Disk) eachFolder(visit func(name string) error) error {
	return filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return visit(d.name(path))
	})
}
