package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/hashicorp/raft"
)

// Store is the durable state of one Raft member.
type Store struct {
	// Logs, Stable and Snapshots are for raft.NewRaft.
	Logs      raft.LogStore
	Stable    raft.StableStore
	Snapshots raft.SnapshotStore
	// MemberID is this member's id, random, unique across all time (S141).
	MemberID string

	dir     dataDir
	log     *slog.Logger
	guard   *ioGuard
	closers []func() error // in the order of opening

	mu sync.Mutex
	id identity
}

// Open locks the data directory, verifies that it is this member's and complete (S21), makes the
// log consistent with the newest valid Raft snapshot (S22), and returns the stores. Every refusal
// names the file and the remedy, and is ErrRefused, ErrInUse or ErrQuarantined.
func Open(o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dataDir{root: o.Dir, disk: o.Disk}, log: o.Logger}
	if err := s.open(o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) open(o Options) error {
	lock, err := s.dir.createAndLock()
	if err != nil {
		return err
	}
	s.closers = append(s.closers, lock.Close)
	if err := s.dir.checkQuarantine(); err != nil {
		return err
	}
	if err := s.dir.checkPrivate(o.Kind); err != nil {
		return err
	}
	if err := s.dir.refuseNewer(o.CheckHeader); err != nil {
		return err
	}
	if o.EntriesFirst && o.CheckEntry != nil {
		if err := s.dir.refuseNewerEntries(o.Kind, o.CheckEntry); err != nil {
			return err
		}
	}
	if err := s.rewriteUnlessStopped(); err != nil {
		return err
	}
	if err := s.identify(o.Kind); err != nil {
		return err
	}
	s.guard = newIOGuard(o)
	return s.openFiles(o)
}

// rewriteUnlessStopped writes the files anew when the last process did not stop in order (S133).
func (s *Store) rewriteUnlessStopped() error {
	inOrder, err := s.dir.takeStop()
	if err != nil || inOrder {
		return err
	}
	return s.dir.rewrite()
}

// identify reads the member's identity; a new member gets its files.
func (s *Store) identify(kind string) (err error) {
	if s.id, err = s.dir.loadIdentity(kind); err != nil {
		return err
	}
	if err := s.dir.checkKind(s.id, kind); err != nil {
		return err
	}
	if !s.id.Initialised {
		if err := s.createFiles(); err != nil {
			return err
		}
	}
	s.MemberID = s.id.Member
	return s.dir.checkRequired(kind)
}

// createFiles creates the files of a new member; it may be repeated after an interrupted first
// start.
func (s *Store) createFiles() error {
	for _, path := range s.dir.requiredPaths(WAL) {
		if path == s.dir.identityPath() {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("begin the data folder again: %w", err)
		}
	}
	member := s.id.Member
	err := errors.Join(createBolt(s.dir, member), createVoteStore(s.dir, member),
		createHighWaterMark(s.dir, member), createRaftSnapshots(s.dir, member))
	if err == nil && s.id.LogStore == WAL {
		err = createWAL(s.dir, member)
	}
	if err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	if err := s.dir.sync(s.dir.root); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	s.id.Initialised = true
	return s.dir.writeChecksummed(s.dir.identityPath(), "", s.id)
}

// openFiles opens each file and checks them against each other.
func (s *Store) openFiles(o Options) error {
	db, err := openBolt(s.dir, s.MemberID)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, db.Close)
	votes, err := openVoteStore(s.dir, db, s.guard, s.MemberID)
	if err != nil {
		return err
	}
	snaps, err := openRaftSnapshots(s.dir, o, s.MemberID)
	if err != nil {
		return err
	}
	mark, acknowledged, markValid, err := openHighWaterMark(s.dir, s.MemberID)
	if err != nil {
		return err
	}
	if !markValid {
		s.log.Warn("the log's high-water mark is damaged and is rewritten", "file", s.dir.markPath())
	}
	s.closers = append(s.closers, mark.close)
	var inner raft.LogStore = db
	if o.Kind == WAL {
		w, closer, err := openWAL(s.dir, o, s.guard, s.MemberID, acknowledged)
		if err != nil {
			return err
		}
		s.closers, inner = append(s.closers, closer), w
	}
	return s.sanitiseAndExpose(o, inner, mark, acknowledged, votes, snaps)
}

// sanitiseAndExpose sets the stores for Raft, after the sanitiser accepted them.
func (s *Store) sanitiseAndExpose(o Options, inner raft.LogStore, m *highWaterMark, acknowledged uint64, v *voteStore, snaps *raftSnapshots) error {
	l, err := newLogs(inner, s.guard, m, s.MemberID)
	if err != nil {
		return err
	}
	sanitiser := sanitiser{dir: s.dir, snaps: snaps, logs: l, votes: v, acknowledged: acknowledged, checkEntry: o.CheckEntry, log: s.log}
	if err := sanitiser.run(); err != nil {
		return err
	}
	cache, err := newCachedLogs(o.CacheEntries, l)
	if err != nil {
		return err
	}
	if err := s.dir.syncFiles(); err != nil {
		return err
	}
	if err := m.raise(l.last.Load()); err != nil {
		return err
	}
	s.Logs, s.Stable, s.Snapshots = cache, v, snaps
	s.guard.armed.Store(true)
	return nil
}

// ClusterID is the id of the cluster that this member was recorded in; empty until SetClusterID.
func (s *Store) ClusterID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id.Cluster
}

// SetClusterID records the cluster permanently. The same id again is no error, another one is.
func (s *Store) SetClusterID(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.id.Cluster {
	case id:
		return nil
	case "":
		next := s.id
		next.Cluster = id
		if err := s.dir.writeChecksummed(s.dir.identityPath(), "", next); err != nil {
			return s.guard.fail("record the cluster's id", err)
		}
		s.id = next
		return nil
	}
	return refuse(s.dir.identityPath(), remedyRejoin, "it belongs to cluster %q, not %q", s.id.Cluster, id)
}

// HasExistingState reports whether this member was ever part of a cluster.
func (s *Store) HasExistingState() (bool, error) {
	return raft.HasExistingState(s.Logs, s.Stable, s.Snapshots)
}

// Quarantine makes every later Open of this directory fail with ErrQuarantined and the reason
// (S23). Files are kept.
func (s *Store) Quarantine(reason string) error {
	if err := s.dir.replaceFile(s.dir.quarantinedPath(), []byte(reason+"\n")); err != nil {
		return fmt.Errorf("write the quarantine marker: %w", err)
	}
	return nil
}

// Close closes the files and releases the lock. Raft must be shut down before.
func (s *Store) Close() error {
	inOrder := s.guard != nil && s.guard.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for len(s.closers) > 0 {
		last := len(s.closers) - 1
		if last == 0 && inOrder && errors.Join(errs...) == nil { // only the lock is left
			errs = append(errs, s.dir.recordStop())
		}
		errs = append(errs, s.closers[last]())
		s.closers = s.closers[:last]
	}
	return errors.Join(errs...)
}
