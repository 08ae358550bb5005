package replay

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/journal"
)

// Entry is one command of the log, and what was decided.
type Entry struct {
	Index, Term uint64
	Command     *fsmpb.Command
	Outcome     *fsmpb.Outcome
	raw         []byte
}

// Log is what several members' journals have together, by index. Entries without a command are in none.
type Log struct {
	entries map[uint64]Entry
	known   []span // indexes that some journal covers, with or without a command
	copies  int    // entries that were read, of all members
}

type span struct{ from, to uint64 }

// NewLog is a log of which nothing is known.
func NewLog() *Log { return &Log{entries: map[uint64]Entry{}} }

// Add adds what one member's journal has. The directory is copied first: a journal is opened to be written. An entry that
// differs from another member's is an error: two members were told different things under one index.
func (l *Log) Add(dir string) (err error) {
	own, err := os.MkdirTemp("", "holdfast-journal-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(own)) }()
	if err := os.CopyFS(filepath.Join(own, "journal"), os.DirFS(dir)); err != nil {
		return fmt.Errorf("copy the journal %s: %w", dir, err)
	}
	j, err := journal.Open(journal.Options{Dir: filepath.Join(own, "journal")})
	if err != nil {
		return fmt.Errorf("open the journal %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	return l.read(j, dir)
}

func (l *Log) read(j *journal.Journal, dir string) error {
	var found error
	next := j.First()
	err := j.Range(0, 0, func(e journal.Entry) bool {
		if e.Gap {
			l.cover(next, e.Index-1)
			next = e.GapTo + 1
			return true
		}
		found = l.add(e)
		return found == nil
	})
	l.cover(next, j.Last())
	if err := errors.Join(err, found); err != nil {
		return fmt.Errorf("read the journal %s: %w", dir, err)
	}
	return nil
}

func (l *Log) cover(from, to uint64) {
	if from <= to {
		l.known = append(l.known, span{from, to})
	}
}

func (l *Log) add(e journal.Entry) error {
	l.copies++
	if before, known := l.entries[e.Index]; known {
		if before.Term != e.Term || !bytes.Equal(before.raw, e.Command) {
			return fmt.Errorf("members differ at index %d: term %d with %d bytes, term %d with %d bytes", e.Index, before.Term, len(before.raw), e.Term, len(e.Command))
		}
		return nil
	}
	entry := Entry{Index: e.Index, Term: e.Term, Command: &fsmpb.Command{}, Outcome: &fsmpb.Outcome{}, raw: slices.Clone(e.Command)}
	if err := errors.Join(proto.Unmarshal(e.Command, entry.Command), proto.Unmarshal(e.Outcome, entry.Outcome)); err != nil {
		return fmt.Errorf("decode entry %d: %w", e.Index, err)
	}
	l.entries[e.Index] = entry
	return nil
}

// Entries are the log's commands in their order.
func (l *Log) Entries() []Entry {
	all := make([]Entry, 0, len(l.entries))
	for _, e := range l.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int { return compare(a.Index, b.Index) })
	return all
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Compared is how many entries more than one member has.
func (l *Log) Compared() int { return l.copies - len(l.entries) }

// Complete is up to which index nothing is missing from the log's beginning.
func (l *Log) Complete() uint64 {
	known := slices.Clone(l.known)
	slices.SortFunc(known, func(a, b span) int { return compare(a.from, b.from) })
	var to uint64
	for _, s := range known {
		if s.from > to+1 {
			break
		}
		to = max(to, s.to)
	}
	return to
}
