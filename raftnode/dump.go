package raftnode

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/plantedbug"
	"github.com/holdfast-storage/holdfast/raftnode/journal"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// Snapshot takes a copy in O(1), so that Apply goes on while it is written (S137).
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	if m.halted.Load() {
		return nil, errors.New("take a Raft snapshot: this member has stopped")
	}
	return &stateDump{machine: m, state: m.fork(), term: m.term}, nil
}

// stateDump is the state at one index, being written.
type stateDump struct {
	machine *machine
	state   *fsm.State
	term    uint64
}

// Persist writes the snapshot after the journal is on disk up to its index: the
// log that could fill the journal again is compacted behind it (S26).
func (f *stateDump) Persist(sink raft.SnapshotSink) error {
	err := f.write(sink)
	if err != nil {
		f.machine.events.dumpDone("failed")
		return errors.Join(fmt.Errorf("write the Raft snapshot: %w", err), sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		f.machine.events.dumpDone("failed")
		return fmt.Errorf("write the Raft snapshot: %w", err)
	}
	f.machine.events.dumpDone("taken")
	return nil
}

func (f *stateDump) write(sink io.Writer) error {
	if err := f.machine.journal.Sync(f.state.Cluster().Index); err != nil && !errors.Is(err, journal.ErrClosed) {
		return fmt.Errorf("sync the journal: %w", err)
	}
	if f.machine.halted.Load() {
		return errors.New("this member has stopped")
	}
	return f.state.WriteDump(sink, f.term)
}

// Release is raft.FSMSnapshot's.
func (f *stateDump) Release() { f.state = nil }

// Restore decodes and verifies the whole snapshot before it swaps the state (S136).
// A snapshot that is older than the state does not replace it, and the entries that Raft
// delivers again afterwards are passed over, so the state's index never goes back (S24).
func (m *machine) Restore(content io.ReadCloser) error {
	if !m.raftStarted.Load() {
		return m.loadDump(content) // raft tries an older one, or refuses to start
	}
	defer m.exitOnPanic("restore a Raft snapshot")
	m.exitIfHalted()
	if err := m.loadDump(content); err != nil {
		panic(err)
	}
	return nil
}

func (m *machine) loadDump(r io.ReadCloser) error {
	content := dumpReaderOf(r)
	at := content.index
	state, header, err := m.verifiedDump.take(content)
	if err != nil {
		return fmt.Errorf("restore the Raft snapshot at index %d: %w", at, err)
	}
	if header.ClusterID != "" {
		if err := m.events.clusterNamed(header.ClusterID); err != nil {
			return fmt.Errorf("restore the Raft snapshot at index %d: %w", at, err)
		}
	}
	if m.restoreLoop.detect(at, time.Now()) {
		return fmt.Errorf("the Raft snapshot at index %d is installed again and again: restart this member, which repairs its log", at)
	}
	if err := m.replaceState(state, header.Term); err != nil {
		return err
	}
	if content.configuration != nil {
		m.events.configuration(*content.configuration)
	}
	m.applied.advance(cmp.Or(at, header.Index))
	if plantedbug.Is(plantedbug.EntryAfterSnapshot) {
		m.applied.advance(cmp.Or(at, header.Index) + 1)
	}
	m.events.dumpDone("restored")
	m.events.allChanged()
	return nil
}

// verifiedDump is the state that the store had decoded to verify a Raft snapshot (S22).
// Raft restores the same one next, once; the store compares its checksums again
// when it opens it.
type verifiedDump struct {
	id     string
	index  uint64 // of Raft
	state  *fsm.State
	header fsm.DumpHeader
}

// decode decodes a whole snapshot and keeps the state.
func (d *verifiedDump) decode(meta *raft.SnapshotMeta, content io.Reader) (err error) {
	*d = verifiedDump{id: meta.ID, index: meta.Index} // one state at a time
	d.state, d.header, err = fsm.ReadDump(content)
	if errors.Is(err, fsm.ErrNewer) {
		err = fmt.Errorf("%w: %w", store.ErrNewer, err)
	}
	return err
}

// take hands the kept state out when it is of this snapshot, and decodes it otherwise.
func (d *verifiedDump) take(content *dumpReader) (*fsm.State, fsm.DumpHeader, error) {
	kept := *d
	*d = verifiedDump{}
	if kept.state != nil && kept.id == content.id && kept.index == content.index {
		return kept.state, kept.header, nil
	}
	return fsm.ReadDump(content)
}

func (m *machine) replaceState(state *fsm.State, term uint64) error {
	index := state.Cluster().Index
	m.mu.Lock()
	defer m.mu.Unlock()
	if index < m.state.Cluster().Index {
		return nil
	}
	m.state, m.stateTerm = state, term
	m.hashes.reset(index, state.Hash())
	m.index.Store(index)
	m.events.revoked(state)
	if err := m.journal.Restored(index); err != nil {
		return fmt.Errorf("journal the Raft snapshot at index %d: %w", index, err)
	}
	return nil
}

// restoreLoop notices that the same snapshot is installed again and again (S131): a
// follower that holds an uncommitted entry at its index rejects what follows, and
// is sent it again. A restart sanitises the log (S22).
type restoreLoop struct {
	highest uint64
	repeats []time.Time // of the restores that did not advance
}

// detect tells whether this restore is the third within a minute that did not
// advance. The restore at start is not counted.
func (l *restoreLoop) detect(index uint64, now time.Time) bool {
	if index > l.highest {
		l.highest, l.repeats = index, []time.Time{now}
		return false
	}
	for len(l.repeats) > 0 && now.Sub(l.repeats[0]) > time.Minute {
		l.repeats = l.repeats[1:]
	}
	l.repeats = append(l.repeats, now)
	return len(l.repeats) >= 3
}

// markStarted begins the life of the machine: the restore that NewRaft did is not counted.
func (m *machine) markStarted() {
	m.restoreLoop = restoreLoop{highest: m.restoreLoop.highest}
	m.verifiedDump = verifiedDump{}
	m.raftStarted.Store(true)
}
