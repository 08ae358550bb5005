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

// sealFile, beside a snapshot's meta.json, holds its checksum. raft checksums what
// a snapshot contains, not the index, term and members that meta.json says.
const sealFile = "seal"

// snapshots is a snapshot store that offers only what was checked in this process:
// at start, or because it was made here.
type snapshots struct {
	inner  *raft.FileSnapshotStore
	dir    folder
	member string
	verify func(*raft.SnapshotMeta, io.Reader) error
	log    *slog.Logger

	mu   sync.Mutex
	good map[string]bool
}

func openSnapshots(d folder, o Options, member string) (*snapshots, error) {
	if err := checkMember(d.snapshots(), member); err != nil {
		return nil, err
	}
	inner, err := raft.NewFileSnapshotStoreWithLogger(string(d), retainSnapshots, hclogTo(o.Logger, slog.LevelWarn))
	if err != nil {
		return nil, fmt.Errorf("open the Raft snapshots: %w", err)
	}
	return &snapshots{inner: inner, dir: d, member: member, verify: o.Verify, log: o.Logger, good: map[string]bool{}}, nil
}

func createSnapshots(d folder, member string) error {
	if err := os.Mkdir(d.snapshots(), 0o700); err != nil {
		return fmt.Errorf("make the folder of Raft snapshots: %w", err)
	}
	return writeMember(d.snapshots(), member)
}

// Create begins a snapshot. It is offered once its sink is closed.
func (s *snapshots) Create(version raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.inner.Create(version, index, term, conf, confIndex, trans)
	if err != nil {
		return nil, err
	}
	return &snapshotSink{SnapshotSink: sink, store: s}, nil
}

// List returns the good snapshots, newest first.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	all, err := s.inner.List()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(all, func(m *raft.SnapshotMeta) bool { return !s.good[m.ID] }), nil
}

// Open returns a good snapshot, which is read and compared with its checksums
// again. One that went bad since is not offered any more.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.mu.Lock()
	good := s.good[id]
	s.mu.Unlock()
	if !good {
		return nil, nil, fmt.Errorf("snapshot %s was not found whole", id)
	}
	meta, r, err := s.open(id)
	if err != nil {
		s.log.Error("a Raft snapshot went bad and is not offered any more", "file", s.path(id), "error", err)
		s.mu.Lock()
		delete(s.good, id)
		s.mu.Unlock()
	}
	return meta, r, err
}

func (s *snapshots) path(id string) string { return filepath.Join(s.dir.snapshots(), id) }

// open checks the checksums of a snapshot and opens it.
func (s *snapshots) open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	var sum uint32
	if err := readSealed(filepath.Join(s.path(id), sealFile), s.member, &sum); err != nil {
		return nil, nil, fmt.Errorf("read its seal: %w", err)
	}
	meta, err := os.ReadFile(filepath.Join(s.path(id), "meta.json"))
	if err != nil {
		return nil, nil, err
	}
	if salted(id, meta) != sum {
		return nil, nil, fmt.Errorf("the checksum of meta.json does not match")
	}
	return s.inner.Open(id)
}

// check decodes a snapshot wholly; a good one is offered from then on.
func (s *snapshots) check(id string) (*raft.SnapshotMeta, error) {
	meta, r, err := s.open(id)
	if err != nil {
		return nil, err
	}
	err = protect(func() error {
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
	s.good[id] = true
	return meta, nil
}

// seal makes what a closed sink left private and checksummed.
func (s *snapshots) seal(id string) error {
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
	if err := writeSealed(filepath.Join(path, sealFile), s.member, salted(id, meta)); err != nil {
		return fmt.Errorf("seal Raft snapshot: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.good[id] = true
	return nil
}

// clean removes what a crash left of unfinished snapshots.
func (s *snapshots) clean() error {
	return s.each(func(name string) error {
		if !strings.HasSuffix(name, ".tmp") {
			return nil
		}
		return os.RemoveAll(s.path(name))
	})
}

// each visits the folders of snapshots by name.
func (s *snapshots) each(visit func(name string) error) error {
	entries, err := os.ReadDir(s.dir.snapshots())
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

// setAside moves a damaged snapshot out of the way and keeps it.
func (s *snapshots) setAside(id string) error {
	if err := os.MkdirAll(s.dir.corrupt(), 0o700); err != nil {
		return fmt.Errorf("make the folder of damaged snapshots: %w", err)
	}
	to := filepath.Join(s.dir.corrupt(), id)
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.Rename(s.path(id), to); err != nil {
		return fmt.Errorf("set a damaged snapshot aside: %w", err)
	}
	return errors.Join(syncPath(s.dir.corrupt()), syncPath(s.dir.snapshots()))
}

// snapshotSink seals what it wrote when it is closed.
type snapshotSink struct {
	raft.SnapshotSink
	store *snapshots
	ended bool
}

// Close makes the snapshot durable and offers it.
func (s *snapshotSink) Close() error {
	if s.ended {
		return nil
	}
	s.ended = true
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	return s.store.seal(s.ID())
}

// Cancel throws the snapshot away.
func (s *snapshotSink) Cancel() error {
	if s.ended {
		return nil
	}
	s.ended = true
	return s.SnapshotSink.Cancel()
}
