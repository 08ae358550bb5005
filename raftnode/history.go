package raftnode

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/journal"
)

// Entry is one applied command, as the journal holds it.
type Entry struct {
	Index   uint64
	Term    uint64
	Command *fsmpb.Command
	Outcome *fsmpb.Outcome
	Chain   []byte // the state's link of it; empty: it has none

	// GapTo is set instead of a command: nothing is known from Index to GapTo, for Reason.
	GapTo  uint64
	Reason string
}

// History yields journalled commands with an index in [from, to] (0: no bound)
// until fn returns false. first is the lowest index that this member knows, gaps
// are marked by entries without a command.
func (m *Member) History(from, to uint64, fn func(Entry) bool) (first uint64, err error) {
	return historyOf(m.journal, from, to, fn)
}

func historyOf(of *journal.Journal, from, to uint64, fn func(Entry) bool) (first uint64, err error) {
	var decodeErr error
	err = of.Range(from, to, func(j journal.Entry) bool {
		e, err := entryOf(j)
		if err != nil {
			decodeErr = err
			return false
		}
		return fn(e)
	})
	if decodeErr != nil {
		err = decodeErr
	}
	if err != nil {
		return 0, fmt.Errorf("read the journal: %w", err)
	}
	return of.First(), nil
}

// JournalEntries is History with the entries as they are journalled.
func (m *Member) JournalEntries(from, to uint64, fn func(journal.Entry) bool) (first uint64, err error) {
	if err := m.journal.Range(from, to, fn); err != nil {
		return 0, fmt.Errorf("read the journal: %w", err)
	}
	return m.journal.First(), nil
}

func entryOf(j journal.Entry) (Entry, error) {
	if j.Gap {
		return Entry{Index: j.Index, GapTo: j.GapTo, Reason: j.Reason}, nil
	}
	e := Entry{Index: j.Index, Term: j.Term, Command: new(fsmpb.Command), Outcome: new(fsmpb.Outcome), Chain: j.Chain}
	if err := proto.Unmarshal(j.Command, e.Command); err != nil {
		e.Command = new(fsmpb.Command) // this build cannot read it, and operators have it skipped: as it was applied
	}
	if err := proto.Unmarshal(j.Outcome, e.Outcome); err != nil {
		return Entry{}, fmt.Errorf("the outcome at index %d: %w", j.Index, err)
	}
	return e, nil
}
