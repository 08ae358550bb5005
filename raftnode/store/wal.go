package store

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// openWAL opens the log in the directory wal.
func openWAL(d dataDir, o Options, g *ioGuard, member string, acknowledged uint64) (raft.LogStore, func() error, error) {
	if err := checkMember(d.walPath(), member); err != nil {
		return nil, nil, err
	}
	var w *wal.WAL
	meta, files := &walMeta{dir: d, member: member, guard: g}, newSegmentFS(d)
	err := catchPanic(func() (err error) {
		if err := repairTail(d, meta, acknowledged, o.SegmentSize); err != nil {
			return err
		}
		w, err = wal.Open(d.walPath(),
			wal.WithMetaStore(meta),
			wal.WithSegmentFiler(segment.NewFiler(d.walPath(), files)),
			wal.WithSegmentSize(o.SegmentSize),
			wal.WithLogger(hclogTo(o.Logger, slog.LevelInfo)))
		return err
	})
	if err != nil {
		return nil, nil, refuse(d.walPath(), remedyRejoin, "cannot open the log: %w", err)
	}
	files.logOpen.Store(true)
	return w, w.Close, nil
}

// createWAL creates an empty log.
func createWAL(d dataDir, member string) error {
	if err := os.Mkdir(d.walPath(), 0o700); err != nil {
		return fmt.Errorf("make the log's folder: %w", err)
	}
	meta := &walMeta{dir: d, member: member}
	if err := meta.CommitState(types.PersistentState{}); err != nil {
		return err
	}
	return d.writeMember(d.walPath(), member)
}

// walMeta keeps the list of segments in a checksummed file. raft-wal's own implementation keeps it
// in bbolt, which opens without a deadline, has no checksum on data pages, and makes raft-wal
// start an empty log when the file is missing.
type walMeta struct {
	dir    dataDir
	member string
	guard  *ioGuard
}

// Load reads the list of segments.
func (m *walMeta) Load(string) (types.PersistentState, error) {
	var s types.PersistentState
	if err := readChecksummed(m.dir.walMetaPath(), m.member, &s); err != nil {
		return s, fmt.Errorf("read %s: %w", m.dir.walMetaPath(), err)
	}
	return s, nil
}

// CommitState replaces the list durably. raft-wal calls it in the background too and only logs the
// error, so a failure is latched in the I/O guard here.
func (m *walMeta) CommitState(s types.PersistentState) error {
	err := m.dir.writeChecksummed(m.dir.walMetaPath(), m.member, s)
	if err != nil && m.guard != nil {
		return m.guard.fail("write the log's list of segments", err)
	}
	return err
}

// GetStable is not used: term and vote are in the stable store.
func (m *walMeta) GetStable([]byte) ([]byte, error) {
	return nil, fmt.Errorf("the log store holds no keys")
}

// SetStable is not used: term and vote are in the stable store.
func (m *walMeta) SetStable([]byte, []byte) error {
	return fmt.Errorf("the log store holds no keys")
}

// Close does nothing: no file is kept open.
func (m *walMeta) Close() error { return nil }

// privateFS creates segments that only their owner can read.
type privateFS struct {
	*walfs.FS
	dir dataDir
}

// Create creates a segment file with mode 0600.
func (p privateFS) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := p.FS.Create(dir, name, size)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(filepath.Join(dir, name), 0o600); err != nil {
		return nil, fmt.Errorf("protect segment %s: %w", name, err)
	}
	return p.dir.wrap(filepath.Join(dir, name), f), nil
}

// OpenWriter opens the segment that is appended to.
func (p privateFS) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := p.FS.OpenWriter(dir, name)
	if err != nil {
		return nil, err
	}
	return p.dir.wrap(filepath.Join(dir, name), f), nil
}
