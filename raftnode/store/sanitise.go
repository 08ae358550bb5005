package store

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"
)

// candidate is a snapshot as its folder's name says.
type candidate struct {
	id          string
	term, index uint64
	sealed      bool  // Raft saw it finished
	err         error // why it is not good
}

// sanitiser brings the log and the snapshots in agreement before Raft sees them
// (S22). It looks at everything first and changes something only when there is
// nothing to refuse.
type sanitiser struct {
	dir   folder
	snaps *snapshots
	logs  *logs
	votes *votes
	mark  uint64
	log   *slog.Logger

	base        raft.SnapshotMeta // the snapshot chosen; zero without one
	bad         []candidate       // newer than base, and damaged
	first, last uint64
	drop        bool // the whole log goes
}

// run is the order of the checks.
func (s *sanitiser) run() error {
	for _, step := range []func() error{
		s.readBounds, s.choose, s.checkLastTerm, s.decide, s.checkMark, s.scan, s.checkCovered, s.act,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (s *sanitiser) readBounds() (err error) {
	if s.first, err = s.logs.FirstIndex(); err != nil {
		return err
	}
	s.last = s.logs.last.Load()
	return nil
}

// choose takes the newest snapshot that decodes wholly (S22, S135).
func (s *sanitiser) choose() error {
	found, err := s.candidates()
	if err != nil {
		return err
	}
	for _, c := range found {
		meta, err := s.snaps.check(c.id)
		if err == nil {
			s.base = *meta
			return nil
		}
		if errors.Is(err, ErrNewer) {
			return refuse(s.snaps.path(c.id), rebuild, "the Raft snapshot at index %d is not for this build: %w", c.index, err)
		}
		c.err = err
		s.bad = append(s.bad, c)
	}
	return nil
}

// candidates lists the snapshots by name, newest first, in Raft's order.
func (s *sanitiser) candidates() (found []candidate, err error) {
	if err := s.snaps.clean(); err != nil {
		return nil, err
	}
	err = s.snaps.each(func(name string) error {
		c := candidate{id: name}
		var msec int64
		if _, err := fmt.Sscanf(name, "%d-%d-%d", &c.term, &c.index, &msec); err != nil {
			return refuse(s.snaps.path(name), "move it elsewhere", "it is no Raft snapshot")
		}
		_, err := os.Lstat(filepath.Join(s.snaps.path(name), sealFile))
		c.sealed = err == nil
		found = append(found, c)
		return nil
	})
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.term, a.term), cmp.Compare(b.index, a.index), cmp.Compare(b.id, a.id))
	})
	return found, err
}

// checkLastTerm refuses a stable store that is older than the log or the snapshot
// beside it: this member may have voted in terms that it forgot (S21).
func (s *sanitiser) checkLastTerm() error {
	term := s.base.Term
	if s.last > 0 {
		var e raft.Log
		if err := s.logs.GetLog(s.last, &e); err != nil {
			return s.refuseLog("entry %d cannot be read: %w", s.last, err)
		}
		term = max(term, e.Term)
	}
	if stable := s.votes.term(); stable < term {
		return refuse(s.dir.bolt(), rejoin, "its term is %d, below term %d of the log or the snapshot", stable, term)
	}
	return nil
}

// decide finds out whether the log has to go: when it has another history than
// the snapshot, and when it ends before it (S22; Raft figure 13 rule 7). What goes
// is either uncommitted or in the snapshot.
func (s *sanitiser) decide() error {
	switch {
	case s.last == 0:
		return nil
	case s.last < s.base.Index:
		s.drop = true
		return nil
	case s.first > s.base.Index+1:
		return s.refuseLog("it begins at entry %d, and no snapshot covers what is before: the newest whole one is at %d%s",
			s.first, s.base.Index, s.badNames())
	case s.base.Index == 0 || s.first > s.base.Index:
		return nil
	}
	var e raft.Log
	if err := s.logs.GetLog(s.base.Index, &e); err != nil {
		return s.refuseLog("entry %d cannot be read: %w", s.base.Index, err)
	}
	s.drop = e.Term != s.base.Term
	return nil
}

// checkMark refuses a log that lost entries which were acknowledged.
func (s *sanitiser) checkMark() error {
	if end := max(s.last, s.base.Index); s.mark > end {
		return s.refuseLog("it ends at entry %d, but entries up to %d were acknowledged%s", end, s.mark, s.badNames())
	}
	return nil
}

// scan reads every entry: each is there, is what was stored, and terms never fall.
func (s *sanitiser) scan() error {
	if s.drop || s.last == 0 {
		return nil
	}
	var term uint64
	for i := s.first; i <= s.last; i++ {
		var e raft.Log
		if err := s.logs.GetLog(i, &e); err != nil {
			return s.refuseLog("entry %d cannot be read: %w", i, err)
		}
		if e.Term < term {
			return s.refuseLog("entry %d has term %d after term %d", i, e.Term, term)
		}
		term = e.Term
	}
	return nil
}

// checkCovered refuses when a damaged snapshot held what nothing else here holds.
// One without a seal never counted: Raft was not told that it was finished.
func (s *sanitiser) checkCovered() error {
	for _, c := range s.bad {
		if c.sealed && (s.drop || s.last < c.index) {
			return refuse(s.snaps.path(c.id), rejoin,
				"the Raft snapshot at index %d is damaged, and the log ends at %d: %w", c.index, s.last, c.err)
		}
	}
	return nil
}

// act does what was decided.
func (s *sanitiser) act() error {
	for _, c := range s.bad {
		s.log.Warn("a damaged Raft snapshot is set aside", "file", s.snaps.path(c.id), "to", s.dir.corrupt(), "error", c.err)
		if err := s.snaps.setAside(c.id); err != nil {
			return err
		}
	}
	if !s.drop {
		return nil
	}
	s.log.Warn("the log does not continue the newest Raft snapshot and is emptied", "first", s.first, "last", s.last,
		"snapshot", s.base.Index, "term", s.base.Term)
	return s.logs.DeleteRange(s.first, s.last)
}

func (s *sanitiser) refuseLog(format string, args ...any) error {
	file := s.dir.bolt()
	if _, err := os.Lstat(s.dir.wal()); err == nil {
		file = s.dir.wal()
	}
	return refuse(file, rejoin, format, args...)
}

// badNames adds the damaged snapshots to a refusal that may be their fault.
func (s *sanitiser) badNames() string {
	text := ""
	for _, c := range s.bad {
		text += fmt.Sprintf("; %s is damaged: %v", s.snaps.path(c.id), c.err)
	}
	return text
}
