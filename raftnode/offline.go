package raftnode

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// ErrSkipRefused: the entry may not be skipped.
var ErrSkipRefused = errors.New("the entry is not skipped")

// Offline is the log of a member that does not run. It holds the data directory's lock, and
// the checks of Open passed.
type Offline struct {
	*store.Store
	dir   string
	dump  verifiedDump // of the newest Raft snapshot; its state is nil without one
	apply applyFunc
}

// OpenOffline opens a stopped member's data folder. It makes no new member, and changes nothing in a folder with a Raft snapshot of a
// newer build. Entries of a newer build are no obstacle: they can be looked at.
func OpenOffline(dir string) (*Offline, error) { return openOffline(dir, nil) }

// openOffline refuses, before it changes anything, a folder with an entry that checkEntry refuses. Nil: none.
func openOffline(dir string, checkEntry func(*raft.Log) error) (*Offline, error) {
	kind, err := store.KindOf(dir)
	if err != nil {
		return nil, err
	}
	o := &Offline{dir: dir, apply: applyCommand}
	if o.Store, err = store.Open(store.Options{Dir: dir, Kind: kind, Verify: o.dump.decode, CheckHeader: checkDumpHeader, CheckEntry: checkEntry, EntriesFirst: true}); err != nil {
		return nil, fmt.Errorf("open the log in %s: %w", dir, err)
	}
	return o, nil
}

// Bounds are the log's first and last index, and that of the newest Raft snapshot.
func (o *Offline) Bounds() (first, last, snapshot uint64, err error) {
	first, err1 := o.Logs.FirstIndex()
	last, err2 := o.Logs.LastIndex()
	return first, last, o.dump.index, errors.Join(err1, err2)
}

// Entry is the entry at index, with the command in it; the command is nil when it is
// one of Raft's own, or nothing that this build can read.
func (o *Offline) Entry(index uint64) (name store.EntryName, cmd *fsmpb.Command, err error) {
	l, err := o.entry(index)
	if err != nil {
		return name, nil, err
	}
	defer func() { _ = recover() }() // what is no command is shown by its hash
	if l.Type == raft.LogCommand {
		cmd = skipSet{}.decodeCommand(l)
	}
	return entryNameOf(l), cmd, nil
}

func (o *Offline) entry(index uint64) (*raft.Log, error) {
	first, last, snapshot, err := o.Bounds()
	switch {
	case err != nil:
		return nil, err
	case index <= snapshot:
		return nil, fmt.Errorf("%w: index %d is in the Raft snapshot at index %d: it was applied", ErrSkipRefused, index, snapshot)
	case index < first || index > last || last == 0:
		return nil, fmt.Errorf("%w: index %d is not in the log, which holds %d to %d", ErrSkipRefused, index, first, last)
	}
	l := new(raft.Log)
	return l, o.Logs.GetLog(index, l)
}

// Skip has this member's state machine skip an entry from the next start on. The entry must
// be named by its index and hash, be known as committed (this member exited at it), and be
// one that the state machine faults on, which is tried on a copy. Repeating a Skip is no error.
func (o *Offline) Skip(index uint64, hash, reason string, now time.Time) (store.Skip, error) {
	recorded, err := o.Skips()
	if err != nil {
		return store.Skip{}, err
	}
	for _, k := range recorded {
		if k.Index == index && strings.EqualFold(k.Hash, hash) {
			return k, nil
		}
	}
	l, err := o.entry(index)
	if err != nil {
		return store.Skip{}, err
	}
	name := entryNameOf(l)
	if !strings.EqualFold(name.Hash, hash) {
		return store.Skip{}, fmt.Errorf("%w: index %d has hash %s, not %s; `holdfast log inspect` shows it", ErrSkipRefused, index, name.Hash, hash)
	}
	if err := o.checkCommitted(name); err != nil {
		return store.Skip{}, err
	}
	if err := o.checkFaults(l, recorded); err != nil {
		return store.Skip{}, err
	}
	k := store.Skip{EntryName: name, Reason: reason, At: now}
	return k, o.AddSkip(k)
}

// checkCommitted: Raft gave the entry to this member's state machine, at which the member exited.
func (o *Offline) checkCommitted(name store.EntryName) error {
	f, err := o.Fault()
	switch {
	case err != nil:
		return err
	case f == nil:
		return fmt.Errorf("%w: this member has not stopped at any entry, so nothing proves that index %d is committed; start it first", ErrSkipRefused, name.Index)
	case f.EntryName != name:
		return fmt.Errorf("%w: this member stopped at index %d with hash %s, not at index %d; start it again if that was long ago", ErrSkipRefused, f.Index, f.Hash, name.Index)
	}
	return nil
}

// checkFaults tells whether the state of this build faults on the entry, and on none before it.
func (o *Offline) checkFaults(entry *raft.Log, recorded []store.Skip) error {
	if entry.Type != raft.LogCommand {
		return fmt.Errorf("%w: index %d is one of Raft's own", ErrSkipRefused, entry.Index)
	}
	state := fsm.New()
	if o.dump.state != nil {
		state = o.dump.state.Fork()
	}
	skipped := skipSet{}
	for _, k := range recorded {
		skipped[k.Index] = k
	}
	for i := state.Cluster().Index + 1; i < entry.Index; i++ {
		if i <= o.dump.index {
			continue
		}
		l, err := o.entry(i)
		if err != nil {
			return err
		}
		if cause := o.applyFault(state, l, skipped); cause != nil {
			return fmt.Errorf("%w: index %d before it faults in the state: %v", ErrSkipRefused, i, cause)
		}
	}
	if cause := o.applyFault(state, entry, skipped); cause == nil {
		return fmt.Errorf("%w: this build can apply index %d: start it on this member and on every other one", ErrSkipRefused, entry.Index)
	} else if _, newer := cause.(fsm.NewerCommand); newer {
		return fmt.Errorf("%w: index %d is of a newer build: %v; start that build", ErrSkipRefused, entry.Index, cause)
	}
	return nil
}

// applyFault returns the state machine's fault on the entry, nil when it applies.
func (o *Offline) applyFault(state *fsm.State, l *raft.Log, skipped skipSet) (cause any) {
	if l.Type != raft.LogCommand {
		return nil
	}
	defer func() { cause = recover() }()
	skipped.applyOrSkip(state, l, skipped.decodeCommand(l), o.apply)
	return nil
}
