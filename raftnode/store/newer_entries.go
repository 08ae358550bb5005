package store

import (
	"io"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"go.etcd.io/bbolt"
)

// refuseNewerEntries asks check about each entry of the log. It only reads: to open a log writes to it. What cannot be
// read is left to that, which says what is wrong, and to the sanitiser, which asks again.
func (d dataDir) refuseNewerEntries(kind string, check func(*raft.Log) error) error {
	var id identity
	if err := readChecksummed(d.identityPath(), "", &id); err != nil || !id.Initialised {
		return nil //nolint:nilerr // it is said when the identity is read to be used
	}
	file, read := d.walPath(), readSegments
	if kind == BoltDB {
		file, read = d.boltPath(), readBoltEntries
	}
	checksums := newEntryChecksums(id.Member)
	var newer error
	look := func(index uint64, l *raft.Log) bool {
		if checksums.verify(index, l) != nil {
			return false
		}
		if err := check(l); err != nil {
			newer = refuse(file, remedyNewerBuild, "entry %d is not for this build: %w", index, err)
		}
		return newer == nil
	}
	_ = catchPanic(func() error { return read(d, id.Member, look) }) // what cannot be read is said when the log is opened
	return newer
}

// readSegments yields the entries of raft-wal's segments, as its own list has them, until fn returns false.
func readSegments(d dataDir, member string, fn func(uint64, *raft.Log) bool) error {
	state, err := (&walMeta{dir: d, member: member}).Load("")
	if err != nil {
		return err
	}
	files := &readFS{FS: walfs.New()}
	defer files.close()
	filer, codec, more := segment.NewFiler(d.walPath(), files), &wal.BinaryCodec{}, true
	for _, s := range state.Segments {
		if !more || err != nil {
			break
		}
		err = filer.DumpSegment(s.BaseIndex, s.ID, 0, 0, func(_ types.SegmentInfo, e types.LogEntry) (bool, error) {
			if e.Index < s.MinIndex || s.MaxIndex > 0 && e.Index > s.MaxIndex { // it was cut off
				return true, nil
			}
			l := new(raft.Log)
			if err := codec.Decode(e.Data, l); err != nil {
				return false, err
			}
			more = fn(e.Index, l)
			return more, nil
		})
	}
	return err
}

// readFS closes the segments that raft-wal leaves open where it is only asked to read them.
type readFS struct {
	*walfs.FS
	opened []io.Closer
}

// OpenReader opens a segment.
func (f *readFS) OpenReader(dir, name string) (types.ReadableFile, error) {
	file, err := f.FS.OpenReader(dir, name)
	if err == nil {
		f.opened = append(f.opened, file)
	}
	return file, err
}

func (f *readFS) close() {
	for _, file := range f.opened {
		_ = file.Close() // only read
	}
}

// readBoltEntries yields the entries of a log in raft.db until fn returns false.
func readBoltEntries(d dataDir, _ string, fn func(uint64, *raft.Log) bool) error {
	if err := checkBolt(d.boltPath()); err != nil {
		return err
	}
	return catchPanic(func() error {
		db, err := raftboltdb.New(raftboltdb.Options{
			Path: d.boltPath(), MsgpackUseNewTimeFormat: true, BoltOptions: &bbolt.Options{Timeout: time.Second, ReadOnly: true},
		})
		if err != nil {
			return err
		}
		defer func() { _ = db.Close() }() // only read
		first, err := db.FirstIndex()
		if err != nil || first == 0 {
			return err
		}
		last, err := db.LastIndex()
		for i := first; err == nil && i <= last; i++ {
			l := new(raft.Log)
			if err = db.GetLog(i, l); err == nil && !fn(i, l) {
				return nil
			}
		}
		return err
	})
}
