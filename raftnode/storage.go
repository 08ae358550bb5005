package raftnode

import (
	"io"

	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// storage is what a member needs of its store.
type storage struct {
	logs      raft.LogStore
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	memberID  string

	clusterID    func() string
	setClusterID func(string) error
	hasState     func() (bool, error)
	quarantine   func(reason string) error
	close        func() error

	skips       func() ([]store.Skip, error)
	recordFault func(store.Fault) error

	revocations       func() (store.Revocations, error)
	recordRevocations func(store.Revocations) error
}

func openStorage(o store.Options) (*storage, error) {
	s, err := store.Open(o)
	if err != nil {
		return nil, err
	}
	return &storage{
		logs: s.Logs, stable: s.Stable, snapshots: s.Snapshots, memberID: s.MemberID,
		clusterID: s.ClusterID, setClusterID: s.SetClusterID, hasState: s.HasExistingState,
		quarantine: s.Quarantine, close: s.Close, skips: s.Skips, recordFault: s.RecordFault,
		revocations: s.Revocations, recordRevocations: s.RecordRevocations,
	}, nil
}

// guardedLogs refuses to append when the disk is so full that the write would
// fail: a failed write ends the process (S133), a refusal only ends leadership (S134).
type guardedLogs struct {
	raft.LogStore
	checkAppend func() error
}

// IsMonotonic is the store's own answer. When raft installs a snapshot it clears a monotonic
// log whole, and compacts any other (S22).
func (g guardedLogs) IsMonotonic() bool {
	m, ok := g.LogStore.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// StoreLog is StoreLogs for one entry.
func (g guardedLogs) StoreLog(l *raft.Log) error { return g.StoreLogs([]*raft.Log{l}) }

// StoreLogs appends, or refuses before anything was written.
func (g guardedLogs) StoreLogs(logs []*raft.Log) error {
	if err := g.checkAppend(); err != nil {
		return err
	}
	return g.LogStore.StoreLogs(logs)
}

// indexedSnapshots tells the restorer which Raft index and configuration a snapshot
// is of: the dump in it knows only the state's index (S24). It counts those that cannot be begun.
type indexedSnapshots struct {
	raft.SnapshotStore
	failed func()
}

// Create is the store's. Raft asks for nothing to be written where it fails, as on a full disk.
func (c indexedSnapshots) Create(version raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := c.SnapshotStore.Create(version, index, term, conf, confIndex, trans)
	if err != nil {
		c.failed()
	}
	return sink, err
}

// Open is the store's, with the metadata kept beside the dump.
func (c indexedSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, content, err := c.SnapshotStore.Open(id)
	if err != nil {
		return nil, nil, err
	}
	return meta, &dumpReader{ReadCloser: content, id: meta.ID, index: meta.Index, configuration: &meta.Configuration}, nil
}

type dumpReader struct {
	io.ReadCloser
	id    string
	index uint64
	// configuration was committed at the index, or before; nil when it is not known.
	configuration *raft.Configuration
}

// dumpReaderOf finds the dump of a Raft snapshot behind raft's own wrappers; without its
// metadata when it did not come from the store.
func dumpReaderOf(r io.ReadCloser) *dumpReader {
	for inner := r; ; {
		switch wrapped := inner.(type) {
		case *dumpReader:
			return &dumpReader{ReadCloser: r, id: wrapped.id, index: wrapped.index, configuration: wrapped.configuration}
		case raft.ReadCloserWrapper:
			inner = wrapped.WrappedReadCloser()
		default:
			return &dumpReader{ReadCloser: r}
		}
	}
}
