package store

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/raft"
)

// checksumFile, beside a Raft snapshot's meta.json, holds its checksum. raft's own covers the
// content, but not the index, term and members in meta.json.
const checksumFile = "seal"

// raftSnapshots is a snapshot store that offers only Raft snapshots that were verified in this
// process: at start, or because they were created by it.
type raftSnapshots struct {
	inner  *raft.FileSnapshotStore
	dir    dataDir
	member string
	verify func(*raft.SnapshotMeta, io.Reader) error
	log    *slog.Logger

	mu       sync.Mutex
	verified map[string]bool
}

func openRaftSnapshots(d dataDir, o Options, member string) (*raftSnapshots, error) {
	if err := checkMember(d.snapshotsPath(), member); err != nil {
		return nil, err
	}
	inner, err := raft.NewFileSnapshotStoreWithLogger(d.root, retainSnapshots, hclogTo(o.Logger, slog.LevelWarn))
	if err != nil {
		return nil, fmt.Errorf("open the Raft snapshots: %w", err)
	}
	return &raftSnapshots{inner: inner, dir: d, member: member, verify: o.Verify, log: o.Logger, verified: map[string]bool{}}, nil
}

func createRaftSnapshots(d dataDir, member string) error {
	if err := os.Mkdir(d.snapshotsPath(), 0o700); err != nil {
		return fmt.Errorf("make the folder of Raft snapshots: %w", err)
	}
	return d.writeMember(d.snapshotsPath(), member)
}

// Create begins a Raft snapshot. It is offered once its sink is closed.
func (s *raftSnapshots) Create(version raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.inner.Create(version, index, term, conf, confIndex, trans)
	if err != nil {
		return nil, err
	}
	return &snapshotSink{SnapshotSink: sink, store: s}, nil
}

// List returns the valid Raft snapshots, newest first.
func (s *raftSnapshots) List() ([]*raft.SnapshotMeta, error) {
	all, err := s.inner.List()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(all, func(m *raft.SnapshotMeta) bool { return !s.verified[m.ID] }), nil
}

// Open returns a valid Raft snapshot after its checksums were verified again. One that was damaged
// since is no longer offered.
func (s *raftSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.mu.Lock()
	verified := s.verified[id]
	s.mu.Unlock()
	if !verified {
		return nil, nil, fmt.Errorf("snapshot %s was not found whole", id)
	}
	meta, r, err := s.open(id)
	if err != nil {
		s.log.Error("a Raft snapshot is damaged by now and is not used any more", "file", s.path(id), "error", err)
		s.mu.Lock()
		delete(s.verified, id)
		s.mu.Unlock()
	}
	return meta, r, err
}

func (s *raftSnapshots) path(id string) string { return filepath.Join(s.dir.snapshotsPath(), id) }

// open verifies the checksums of a Raft snapshot and opens it.
func (s *raftSnapshots) open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	var sum uint32
	if err := readChecksummed(filepath.Join(s.path(id), checksumFile), s.member, &sum); err != nil {
		return nil, nil, fmt.Errorf("read its checksum (file seal): %w", err)
	}
	meta, err := os.ReadFile(filepath.Join(s.path(id), "meta.json"))
	if err != nil {
		return nil, nil, err
	}
	if saltedChecksum(id, meta) != sum {
		return nil, nil, fmt.Errorf("the checksum of meta.json does not match")
	}
	return s.inner.Open(id)
}

// verifyContent decodes a complete Raft snapshot; a valid one is offered from then on.
func (s *raftSnapshots) verifyContent(id string) (*raft.SnapshotMeta, error) {
	meta, r, err := s.open(id)
	if err != nil {
		return nil, err
	}
	err = catchPanic(func() error {
		if err := s.verify(meta, r); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, r)
		return err
	})
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verified[id] = true
	return meta, nil
}

// writeChecksum restricts the files of a finished Raft snapshot to their owner and writes its
// checksum.
func (s *raftSnapshots) writeChecksum(id string) error {
	path := s.path(id)
	meta, err := os.ReadFile(filepath.Join(path, "meta.json"))
	if err != nil {
		return fmt.Errorf("seal Raft snapshot: %w", err)
	}
	for file, mode := range map[string]os.FileMode{path: 0o700, filepath.Join(path, "meta.json"): 0o600, filepath.Join(path, "state.bin"): 0o600} {
		if err := os.Chmod(file, mode); err != nil {
			return fmt.Errorf("protect Raft snapshot: %w", err)
		}
	}
	if err := s.dir.writeChecksummed(filepath.Join(path, checksumFile), s.member, saltedChecksum(id, meta)); err != nil {
		return fmt.Errorf("seal Raft snapshot: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verified[id] = true
	return nil
}

// unfinishedSuffix ends the name of a Raft snapshot that is being written.
const unfinishedSuffix = ".tmp"

// removeUnfinished removes Raft snapshots that a crash left unfinished.
func (s *raftSnapshots) removeUnfinished() error {
	return s.eachDir(func(name string) error {
		if !strings.HasSuffix(name, unfinishedSuffix) {
			return nil
		}
		return os.RemoveAll(s.path(name))
	})
}

// eachDir calls visit with the name of each Raft snapshot's directory.
func (s *raftSnapshots) eachDir(visit func(name string) error) error {
	entries, err := os.ReadDir(s.dir.snapshotsPath())
	if err != nil {
		return fmt.Errorf("list the Raft snapshots: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := visit(e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// moveToCorrupt moves a damaged Raft snapshot to corrupt/, where it is kept.
func (s *raftSnapshots) moveToCorrupt(id string) error {
	if err := os.MkdirAll(s.dir.corruptPath(), 0o700); err != nil {
		return fmt.Errorf("make the folder of damaged snapshots: %w", err)
	}
	to := filepath.Join(s.dir.corruptPath(), id)
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.Rename(s.path(id), to); err != nil {
		return fmt.Errorf("move a damaged Raft snapshot away: %w", err)
	}
	return errors.Join(s.dir.sync(s.dir.corruptPath()), s.dir.sync(s.dir.snapshotsPath()))
}

// snapshotSink writes the checksum of the Raft snapshot when it is closed.
type snapshotSink struct {
	raft.SnapshotSink
	store  *raftSnapshots
	closed bool
}

// Close makes the Raft snapshot durable and offers it.
func (s *snapshotSink) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	return s.store.writeChecksum(s.ID())
}

// Cancel discards the Raft snapshot.
func (s *snapshotSink) Cancel() error {
	if s.closed {
		return nil
	}
	s.closed = true
	return s.SnapshotSink.Cancel()
}
