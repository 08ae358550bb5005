package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft-wal/types"
)

// Disk is how the store's files become durable. Only a simulation replaces it: to fail, to hang, and
// to lose at a power failure what was not synced. Its methods are called from several goroutines.
type Disk interface {
	// Begin is called before each operation on the log or the vote, and may block. AfterFailure is the
	// operation when one has failed before: the process ought to have exited by then.
	Begin(operation string)
	// WriteAt writes to the file at path.
	WriteAt(f io.WriterAt, path string, p []byte, off int64) (int, error)
	// Sync makes the file or folder at path durable; sync is how the operating system does.
	Sync(path string, sync func() error) error
	// Rename renames a file; the folder's Sync makes that durable.
	Rename(from, to string) error
}

// AfterFailure is what Disk.Begin is told of every operation after one that failed.
const AfterFailure = "after a failure"

func (d dataDir) writeAt(f io.WriterAt, path string, p []byte, off int64) (int, error) {
	if d.disk == nil {
		return f.WriteAt(p, off)
	}
	return d.disk.WriteAt(f, path, p, off)
}

func (d dataDir) syncBy(path string, sync func() error) error {
	if d.disk == nil {
		return sync()
	}
	return d.disk.Sync(path, sync)
}

func (d dataDir) rename(from, to string) error {
	if d.disk == nil {
		return os.Rename(from, to)
	}
	return d.disk.Rename(from, to)
}

// replaceFile writes a temporary file, makes it durable and renames it over the old one.
func (d dataDir) replaceFile(path string, data []byte) error {
	return d.replaceBy(path, path+".tmp", func(f *os.File) error {
		_, err := d.writeAt(f, f.Name(), data, 0)
		return err
	})
}

// replaceBy has write fill a temporary file, makes that durable and renames it to path. After a crash
// path is what it was, or whole and durable.
func (d dataDir) replaceBy(path, tmp string, write func(*os.File) error) error {
	if err := d.writeDurable(tmp, write); err != nil {
		return fmt.Errorf("write %s: %w", tmp, err)
	}
	if err := d.rename(tmp, path); err != nil {
		return err
	}
	return d.sync(filepath.Dir(path))
}

func (d dataDir) writeDurable(path string, write func(*os.File) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = d.syncBy(path, f.Sync)
	}
	return errors.Join(err, f.Close())
}

// sync makes a file's content, or a directory's entries, durable.
func (d dataDir) sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.syncBy(path, f.Sync), f.Close())
}

// wrap has a segment's writes and syncs go to the disk.
func (d dataDir) wrap(path string, f types.WritableFile) types.WritableFile {
	if d.disk == nil {
		return f
	}
	return diskSegment{WritableFile: f, dir: d, path: path}
}

// diskSegment is a segment of the log on a simulated disk.
type diskSegment struct {
	types.WritableFile
	dir  dataDir
	path string
}

// WriteAt writes through the disk.
func (s diskSegment) WriteAt(p []byte, off int64) (int, error) {
	return s.dir.writeAt(s.WritableFile, s.path, p, off)
}

// Sync syncs through the disk.
func (s diskSegment) Sync() error { return s.dir.syncBy(s.path, s.WritableFile.Sync) }
