package raftnode

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/journal"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// Snapshot takes a copy in O(1), so that Apply goes on while it is written (S137).
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	if m.halted.Load() {
		return nil, errors.New("take a Raft snapshot: this member has stopped")
	}
	return &frozen{machine: m, state: m.fork(), term: m.term}, nil
}

// frozen is the state at one index, being written.
type frozen struct {
	machine *machine
	state   *fsm.State
	term    uint64
}

// Persist writes the snapshot after the journal is on disk up to its index: the
// log that could fill the journal again is compacted behind it (S26).
func (f *frozen) Persist(sink raft.SnapshotSink) error {
	err := f.write(sink)
	if err != nil {
		f.machine.on.snapshot("failed")
		return errors.Join(fmt.Errorf("write the Raft snapshot: %w", err), sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		f.machine.on.snapshot("failed")
		return fmt.Errorf("write the Raft snapshot: %w", err)
	}
	f.machine.on.snapshot("taken")
	return nil
}

func (f *frozen) write(sink io.Writer) error {
	if err := f.machine.journal.Sync(f.state.Cluster().Index); err != nil && !errors.Is(err, journal.ErrClosed) {
		return fmt.Errorf("sync the journal: %w", err)
	}
	if f.machine.halted.Load() {
		return errors.New("this member has stopped")
	}
	return f.state.WriteDump(sink, f.term)
}

// Release is raft.FSMSnapshot's.
func (f *frozen) Release() { f.state = nil }

// Restore decodes and verifies the whole snapshot before it swaps the state (S136).
// A snapshot that is older than the state brings nothing: the entries that Raft
// delivers again afterwards were applied, and are passed over, so the state's
// index never goes back (S24).
func (m *machine) Restore(content io.ReadCloser) error {
	if !m.running.Load() {
		return m.restore(content) // raft tries an older one, or refuses to start
	}
	defer m.stopOnFault("restore a Raft snapshot")
	m.stopWhenHalted()
	if err := m.restore(content); err != nil {
		panic(err)
	}
	return nil
}

func (m *machine) restore(r io.ReadCloser) error {
	content := contentOf(r)
	at := content.index
	state, header, err := m.decoded.read(content)
	if err != nil {
		return fmt.Errorf("restore the Raft snapshot at index %d: %w", at, err)
	}
	if header.ClusterID != "" {
		if err := m.on.cluster(header.ClusterID); err != nil {
			return fmt.Errorf("restore the Raft snapshot at index %d: %w", at, err)
		}
	}
	if m.restores.again(at, time.Now()) {
		return fmt.Errorf("the Raft snapshot at index %d is installed over and over: the log must be sanitised by a restart (S131)", at)
	}
	if err := m.swap(state); err != nil {
		return err
	}
	if content.configuration != nil {
		m.on.configuration(*content.configuration)
	}
	m.applied.advance(cmp.Or(at, header.Index))
	m.on.snapshot("restored")
	m.on.everything()
	return nil
}

// decoded is the state that the store had decoded to verify a Raft snapshot (S22).
// Raft restores the same one next, once; the store compares its checksums again
// when it opens it.
type decoded struct {
	id     string
	index  uint64 // of Raft
	state  *fsm.State
	header fsm.DumpHeader
}

// verify decodes a whole snapshot and keeps the state.
func (d *decoded) verify(meta *raft.SnapshotMeta, content io.Reader) (err error) {
	*d = decoded{id: meta.ID, index: meta.Index} // one state at a time
	d.state, d.header, err = fsm.ReadDump(content)
	if errors.Is(err, fsm.ErrNewer) {
		err = fmt.Errorf("%w: %w", store.ErrNewer, err)
	}
	return err
}

// read hands the kept state out when it is of this snapshot, and decodes it otherwise.
func (d *decoded) read(content *snapshotContent) (*fsm.State, fsm.DumpHeader, error) {
	kept := *d
	*d = decoded{}
	if kept.state != nil && kept.id == content.id && kept.index == content.index {
		return kept.state, kept.header, nil
	}
	return fsm.ReadDump(content)
}

func (m *machine) swap(state *fsm.State) error {
	index := state.Cluster().Index
	m.mu.Lock()
	defer m.mu.Unlock()
	if index < m.state.Cluster().Index {
		return nil
	}
	m.state = state
	m.ring.reset(index, state.Hash())
	m.index.Store(index)
	if err := m.journal.Restored(index); err != nil {
		return fmt.Errorf("journal the Raft snapshot at index %d: %w", index, err)
	}
	return nil
}

// livelock notices that the same snapshot is installed again and again (S131): a
// follower that holds an uncommitted entry at its index rejects what follows, and
// is sent it again. A restart sanitises the log (S22).
type livelock struct {
	highest uint64
	since   []time.Time // of the restores that did not advance
}

// again tells whether this restore is the third within a minute that did not
// advance. The restore at start is not counted.
func (l *livelock) again(index uint64, now time.Time) bool {
	if index > l.highest {
		l.highest, l.since = index, []time.Time{now}
		return false
	}
	for len(l.since) > 0 && now.Sub(l.since[0]) > time.Minute {
		l.since = l.since[1:]
	}
	l.since = append(l.since, now)
	return len(l.since) >= 3
}

// start begins the life of the machine: the restore that NewRaft did is not counted.
func (m *machine) start() {
	m.restores = livelock{highest: m.restores.highest}
	m.decoded = decoded{}
	m.running.Store(true)
}
