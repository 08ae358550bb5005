package raftnode

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/journal"
)

// machine is the raft.FSM around the state. Raft calls its raft methods from one
// goroutine; readers come under the lock.
type machine struct {
	mu    sync.RWMutex
	state *fsm.State
	ring  *hashRing

	// Of the raft goroutine only.
	term     uint64 // of the last entry delivered
	restores livelock

	// applied counts Raft indexes whose entries were delivered; index is the
	// state's, of the last command.
	applied waiters
	index   atomic.Uint64
	running atomic.Bool // raft has started
	// sweeping: what an entry changed is not in all records yet.
	sweeping atomic.Bool
	// halted is set when nothing may be applied, snapshotted or served any more.
	halted atomic.Bool

	decoded decoded // before raft has started
	journal *journal.Journal
	on      machineEvents

	apply    folding
	skips    skips
	applying *raft.Log // the entry that is being folded; of the raft goroutine only
}

// machineEvents is who the machine tells. All must return quickly.
type machineEvents struct {
	touched    func([]fsm.Change)
	everything func()
	// committed is told of the last entry of each batch.
	committed func(index, term uint64)
	cluster   func(id string) error // the first command named the cluster
	// configuration is told of each that was committed.
	configuration func(raft.Configuration)
	diverged      func(index uint64, own, agreed []byte)
	fault         func(what string)
	// poisoned is told before fault: the state faulted on this entry.
	poisoned func(l *raft.Log, cause any)
	batch    func(entries int, took time.Duration)
	snapshot func(kind string)
}

func newMachine(j *journal.Journal, on machineEvents) *machine {
	return &machine{state: fsm.New(), ring: newHashRing(hashesKept), journal: j, on: on, apply: applyCommand}
}

// Apply is raft.FSM's.
func (m *machine) Apply(l *raft.Log) any { return m.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch folds committed entries into the state (raft.BatchingFSM). What it
// cannot fold is a fault: the process ends before states diverge.
func (m *machine) ApplyBatch(logs []*raft.Log) []any {
	defer m.stopOnFault("apply committed entries")
	m.stopWhenHalted()
	start := time.Now()
	commands := m.decode(logs)
	answers := make([]any, len(logs))
	outcomes := make([]*fsmpb.Outcome, len(logs))
	touched := m.fold(logs, commands, outcomes)
	for i, o := range outcomes {
		if o != nil {
			answers[i] = o
			m.record(logs[i], o)
		}
	}
	for _, l := range logs {
		if l.Type == raft.LogConfiguration {
			m.on.configuration(raft.DecodeConfiguration(l.Data))
		}
	}
	last := logs[len(logs)-1]
	m.term = last.Term
	m.applied.advance(last.Index)
	m.on.committed(last.Index, last.Term)
	m.on.touched(touched)
	m.on.batch(len(logs), time.Since(start))
	m.stopWhenHalted()
	return answers
}

// decode is done before the lock is taken. Entries that are not commands, and
// those below what a later snapshot brought, have none.
func (m *machine) decode(logs []*raft.Log) []*fsmpb.Command {
	commands := make([]*fsmpb.Command, len(logs))
	for i, l := range logs {
		if l.Type != raft.LogCommand || l.Index <= m.applied.reached.Load() {
			continue
		}
		m.applying = l
		commands[i] = m.skips.commandOf(l)
	}
	m.applying = nil
	return commands
}

func (m *machine) fold(logs []*raft.Log, commands []*fsmpb.Command, outcomes []*fsmpb.Outcome) (touched []fsm.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, cmd := range commands {
		if cmd == nil {
			continue
		}
		m.applying = logs[i]
		r := m.skips.take(m.state, logs[i], cmd, m.apply)
		m.applying = nil
		outcomes[i] = r.Outcome
		touched = append(touched, r.Changes...)
		m.ring.put(logs[i].Index, m.state.Hash())
		m.index.Store(logs[i].Index)
		m.afterwards(cmd, r.Outcome)
		m.sweeping.Store(len(m.state.Cluster().Sweeps) > 0)
		if m.halted.Load() {
			break
		}
	}
	return touched
}

// afterwards looks at the two commands that concern the member itself.
func (m *machine) afterwards(cmd *fsmpb.Command, o *fsmpb.Outcome) {
	if o.GetRejection() != nil {
		return
	}
	switch c := cmd.GetBody().(type) {
	case *fsmpb.Command_Checkpoint:
		m.compare(c.Checkpoint)
	case *fsmpb.Command_Bootstrap:
		if err := m.on.cluster(m.state.Cluster().ID); err != nil {
			panic(fmt.Sprintf("record the cluster's id: %v", err))
		}
	}
}

// compare halts this member when its hash is not the majority's (S23).
func (m *machine) compare(c *fsmpb.Checkpoint) {
	own, known := m.ring.at(c.GetIndex())
	if known && string(own[:]) != string(c.GetHash()) {
		m.halted.Store(true)
		m.on.diverged(c.GetIndex(), own[:], c.GetHash())
	}
}

// record writes the journal. What the disk does not take becomes a gap there;
// only another history in the same folder is an error (S26).
func (m *machine) record(l *raft.Log, o *fsmpb.Outcome) {
	outcome, err := proto.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("log index %d: marshal the outcome: %v", l.Index, err))
	}
	if err := m.journal.Append(journal.Entry{Index: l.Index, Term: l.Term, Command: l.Data, Outcome: outcome}); err != nil {
		panic(fmt.Sprintf("log index %d: journal: %v", l.Index, err))
	}
}

// passed tells of an index that Raft went through without giving it to the machine.
func (m *machine) passed(index uint64) { m.applied.advance(index) }

// stopOnFault turns a panic into the end of the process. Where a test keeps the
// process alive, the raft goroutine ends and nothing is applied any more.
func (m *machine) stopOnFault(doing string) {
	if p := recover(); p != nil {
		m.halted.Store(true)
		if m.applying != nil {
			m.on.poisoned(m.applying, p)
		}
		m.on.fault(fmt.Sprintf("%s: %v\n%s", doing, p, debug.Stack()))
		runtime.Goexit()
	}
}

func (m *machine) stopWhenHalted() {
	if m.halted.Load() {
		runtime.Goexit()
	}
}

// view calls fn under the read lock.
func (m *machine) view(fn func(*fsm.State) error) (uint64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state.Cluster().Index, fn(m.state)
}

func (m *machine) fork() *fsm.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Fork()
}

func (m *machine) cluster() fsm.Cluster {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state.Cluster()
}

func (m *machine) hashAt(index uint64) ([32]byte, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.ring.at(index)
}
