package raftnode

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/journal"
)

// machine is the raft.FSM around the state. Raft calls its raft methods from one
// goroutine; readers come under the lock.
type machine struct {
	mu        sync.RWMutex
	state     *fsm.State
	stateTerm uint64 // of the last command in state
	hashes    *hashRing

	// Of the raft goroutine only.
	term        uint64 // of the last entry delivered
	restoreLoop restoreLoop

	// applied counts Raft indexes whose entries were delivered; index is the
	// state's, of the last command.
	applied     indexWaiters
	index       atomic.Uint64
	raftStarted atomic.Bool // raft has started
	// sweeping: what an entry changed is not in all records yet.
	sweeping atomic.Bool
	// halted is set when nothing may be applied, dumped or served any more.
	halted atomic.Bool

	verifiedDump verifiedDump // before raft has started
	journal      *journal.Journal
	events       machineEvents

	apply    applyFunc
	skips    skipSet
	applying *raft.Log // the entry that is being applied; of the raft goroutine only
}

// machineEvents are the machine's callbacks. All must return quickly.
type machineEvents struct {
	changed    func([]fsm.Change)
	allChanged func()
	// committed gets the last entry of each batch.
	committed    func(index, term uint64)
	clusterNamed func(id string) error // the first command named the cluster
	// configuration gets each committed configuration.
	configuration func(raft.Configuration)
	// revoked gets the state when what is revoked may have changed, under the machine's lock.
	revoked  func(*fsm.State)
	diverged func(index uint64, own, agreed []byte)
	failed   func(what string)
	// entryFailed is called before failed: the state machine faults on this entry.
	entryFailed  func(l *raft.Log, cause any)
	batchApplied func(entries int, took time.Duration)
	dumpDone     func(kind string)
}

func newMachine(j *journal.Journal, on machineEvents) *machine {
	return &machine{state: fsm.New(), hashes: newHashRing(hashesKept), journal: j, events: on, apply: applyCommand}
}
