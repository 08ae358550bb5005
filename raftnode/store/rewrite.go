package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// After a failed fsync the kernel takes the pages for clean: a process that is started on them reads
// what never reached the disk, and an fsync of its own has nothing to write and succeeds. It would
// answer for a vote, a term or an entry that the next power failure takes. So a member whose
// process did not stop in order writes all its files anew before it reads one: the copy's pages
// are dirty, and durable once they are synced.
//
// The last end was in order when the file "stopped" is there and describes the folder. It is gone
// while a process runs. Neither needs to be durable: a power failure takes the page cache too, and
// what is read after it is on the disk.

const rewriteSuffix = ".rewrite"

// stopRecord is the content of the file "stopped". It distinguishes the folder from a copy, and
// from one that a build used since that does not remove the file.
type stopRecord struct {
	// Of log.mark, which every start writes.
	MarkInode    uint64 `json:"mark_inode"`
	MarkModified int64  `json:"mark_modified_ns"`
}

func (d dataDir) stoppedPath() string { return filepath.Join(d.root, "stopped") }

func (d dataDir) stopRecord() (r stopRecord, err error) {
	var st unix.Stat_t
	if err := unix.Stat(d.markPath(), &st); err != nil {
		return r, fmt.Errorf("look at the log's mark: %w", err)
	}
	return stopRecord{MarkInode: st.Ino, MarkModified: st.Mtim.Nano()}, nil
}

// recordStop says that everything is durable.
func (d dataDir) recordStop() error {
	r, err := d.stopRecord()
	if err != nil {
		return fmt.Errorf("record the stop: %w", err)
	}
	return d.writeChecksummed(d.stoppedPath(), "", r)
}

// takeStop tells whether the last process stopped in order, and removes its word for it.
func (d dataDir) takeStop() (inOrder bool, err error) {
	var said stopRecord
	read := readChecksummed(d.stoppedPath(), "", &said)
	now, err := d.stopRecord()
	inOrder = read == nil && err == nil && said == now
	if err := os.Remove(d.stoppedPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("begin to use the data folder: %w", err)
	}
	return inOrder, nil
}

// rewrite replaces every file by a durable copy of itself. It may be interrupted anywhere and begun
// again: each file is at all times the old one or its copy.
//
// Left out are the Raft snapshots' contents, each of which was durable before the checksum file
// beside it was made, and the journal, which nothing is decided by.
func (d dataDir) rewrite() error {
	paths, err := d.rewritten()
	if err != nil {
		return fmt.Errorf("list what is to be rewritten: %w", err)
	}
	folders := map[string]bool{}
	for _, path := range paths {
		if err := d.rewriteFile(path); err != nil {
			return fmt.Errorf("rewrite %s after a stop that was not in order: %w", path, err)
		}
		folders[filepath.Dir(path)] = true
	}
	for folder := range folders {
		if err := d.sync(folder); err != nil {
			return fmt.Errorf("sync %s after its files were rewritten: %w", folder, err)
		}
	}
	return nil
}

// rewritten lists the files that there are of those whose content counts.
func (d dataDir) rewritten() (paths []string, err error) {
	for _, pattern := range []string{
		"vote.json", "raft.db", "log.mark", "fault.json", "skips.json", "revocations.json", "wal/*.wal", "wal/meta.json", "wal/member",
		"snapshots/member", "snapshots/*/" + checksumFile, "identity.json",
	} {
		found, err := fs.Glob(os.DirFS(d.root), pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			paths = append(paths, filepath.Join(d.root, name))
		}
	}
	return paths, nil
}

// rewriteFile renames a durable copy over the file.
func (d dataDir) rewriteFile(path string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.writeDurable(path+rewriteSuffix, func(to *os.File) error { return d.copyFile(to, from) })
	if err == nil {
		err = d.rename(path+rewriteSuffix, path)
	} else {
		_ = os.Remove(path + rewriteSuffix) // the disk may be full
	}
	return errors.Join(err, from.Close())
}

// copyBlock is how much is copied at once, and the size of a hole that is not written, in bytes.
const copyBlock = 64 << 10

// copyFile copies the content and allocates the whole size: raft-wal's segments are allocated before
// they are written, so that an append finds room.
func (d dataDir) copyFile(to, from *os.File) error {
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if info.Size() > 0 {
		if err := unix.Fallocate(int(to.Fd()), 0, 0, info.Size()); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("allocate %s: %w", to.Name(), err)
		}
	}
	zeros := make([]byte, copyBlock)
	for buf, at := make([]byte, copyBlock), int64(0); ; {
		n, err := from.ReadAt(buf, at)
		if n > 0 && !bytes.Equal(buf[:n], zeros[:n]) {
			if _, err := d.writeAt(to, to.Name(), buf[:n], at); err != nil {
				return err
			}
		}
		if at += int64(n); errors.Is(err, io.EOF) {
			return to.Truncate(info.Size())
		}
		if err != nil {
			return err
		}
	}
}
