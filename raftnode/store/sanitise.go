package store

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
)

// snapshotCandidate is a Raft snapshot as its directory's name describes it.
type snapshotCandidate struct {
	id          string
	term, index uint64
	finished    bool  // Raft was told that it was finished
	err         error // why it is not valid
}

// sanitiser makes the log and the Raft snapshots consistent before Raft sees them (S22). It checks
// everything first, and changes something only when there is nothing to refuse.
type sanitiser struct {
	dir          dataDir
	snaps        *raftSnapshots
	logs         *logs
	votes        *voteStore
	acknowledged uint64
	checkEntry   func(*raft.Log) error // may be nil
	log          *slog.Logger

	newest      raft.SnapshotMeta   // the chosen Raft snapshot; zero without one
	damaged     []snapshotCandidate // newer than base, and damaged
	first, last uint64
	emptyLog    bool // all entries are to be deleted
}

// run performs the checks in order.
func (s *sanitiser) run() error {
	for _, step := range []func() error{
		s.readBounds, s.chooseSnapshot, s.checkLastTerm, s.decideEmptyLog, s.checkAcknowledged, s.scanEntries, s.checkDamagedSnapshots, s.apply,
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

// chooseSnapshot chooses the newest Raft snapshot that decodes completely (S22, S135).
func (s *sanitiser) chooseSnapshot() error {
	found, err := s.candidates()
	if err != nil {
		return err
	}
	for _, c := range found {
		meta, err := s.snaps.verifyContent(c.id)
		if err == nil {
			s.newest = *meta
			return nil
		}
		if errors.Is(err, ErrNewer) {
			return refuse(s.snaps.path(c.id), remedyNewerBuild, "the Raft snapshot at index %d is not for this build: %w", c.index, err)
		}
		c.err = err
		s.damaged = append(s.damaged, c)
	}
	return nil
}

// candidates lists the Raft snapshots by name, newest first, in Raft's order.
func (s *sanitiser) candidates() (found []snapshotCandidate, err error) {
	err = s.snaps.eachDir(func(name string) error {
		if strings.HasSuffix(name, unfinishedSuffix) {
			return nil // apply removes it, when nothing is refused
		}
		c := snapshotCandidate{id: name}
		var msec int64
		if _, err := fmt.Sscanf(name, "%d-%d-%d", &c.term, &c.index, &msec); err != nil {
			return refuse(s.snaps.path(name), "move it elsewhere", "it is no Raft snapshot")
		}
		_, err := os.Lstat(filepath.Join(s.snaps.path(name), checksumFile))
		c.finished = err == nil
		found = append(found, c)
		return nil
	})
	slices.SortFunc(found, func(a, b snapshotCandidate) int {
		return cmp.Or(cmp.Compare(b.term, a.term), cmp.Compare(b.index, a.index), cmp.Compare(b.id, a.id))
	})
	return found, err
}

// checkLastTerm refuses a stable store that is older than the log or the Raft snapshot beside it:
// this member may have voted in terms of which it has no record (S21).
func (s *sanitiser) checkLastTerm() error {
	term := s.newest.Term
	if s.last > 0 {
		var e raft.Log
		if err := s.logs.GetLog(s.last, &e); err != nil {
			return s.refuseLog("entry %d cannot be read: %w", s.last, err)
		}
		term = max(term, e.Term)
	}
	if stable := s.votes.currentTerm(); stable < term {
		return refuse(s.dir.boltPath(), remedyRejoin, "its term is %d, below term %d of the log or the snapshot", stable, term)
	}
	return nil
}

// decideEmptyLog decides whether the log must be emptied: when its history differs from the Raft
// snapshot's, and when it ends before it (S22; Raft figure 13 rule 7). Every entry deleted then is
// either uncommitted or in the Raft snapshot.
func (s *sanitiser) decideEmptyLog() error {
	switch {
	case s.last == 0:
		return nil
	case s.last < s.newest.Index:
		s.emptyLog = true
		return nil
	case s.first > s.newest.Index+1:
		return s.refuseLog("it begins at entry %d, and no snapshot covers what is before: the newest whole one is at %d%s",
			s.first, s.newest.Index, s.damagedNames())
	case s.newest.Index == 0 || s.first > s.newest.Index:
		return nil
	}
	var e raft.Log
	if err := s.logs.GetLog(s.newest.Index, &e); err != nil {
		return s.refuseLog("entry %d cannot be read: %w", s.newest.Index, err)
	}
	s.emptyLog = e.Term != s.newest.Term
	return nil
}

// checkAcknowledged refuses a log that lost acknowledged entries.
func (s *sanitiser) checkAcknowledged() error {
	if end := max(s.last, s.newest.Index); s.acknowledged > end {
		return s.refuseLog("it ends at entry %d, but entries up to %d were acknowledged%s", end, s.acknowledged, s.damagedNames())
	}
	return nil
}

// scanEntries reads every entry: each must exist and be what was stored, and terms must not
// decrease.
func (s *sanitiser) scanEntries() error {
	if s.emptyLog || s.last == 0 {
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
		if err := s.verifyEntry(&e); err != nil {
			return err
		}
		term = e.Term
	}
	return nil
}

// verifyEntry refuses an entry of a newer build, which Raft would apply as soon as it runs (S72).
func (s *sanitiser) verifyEntry(e *raft.Log) error {
	if s.checkEntry == nil {
		return nil
	}
	if err := s.checkEntry(e); err != nil {
		return refuse(s.logFile(), remedyNewerBuild, "entry %d is not for this build: %w", e.Index, err)
	}
	return nil
}

// checkDamagedSnapshots refuses when a damaged Raft snapshot held what no other file holds. One
// without a checksum file does not count: Raft was not told that it was finished.
func (s *sanitiser) checkDamagedSnapshots() error {
	for _, c := range s.damaged {
		if c.finished && (s.emptyLog || s.last < c.index) {
			return refuse(s.snaps.path(c.id), remedyRejoin,
				"the Raft snapshot at index %d is damaged, and the log ends at %d: %w", c.index, s.last, c.err)
		}
	}
	return nil
}

// apply carries out the decisions. Until then nothing of the folder was changed.
func (s *sanitiser) apply() error {
	if err := s.snaps.removeUnfinished(); err != nil {
		return err
	}
	for _, c := range s.damaged {
		s.log.Warn("a damaged Raft snapshot is moved to corrupt/", "file", s.snaps.path(c.id), "to", s.dir.corruptPath(), "error", c.err)
		if err := s.snaps.moveToCorrupt(c.id); err != nil {
			return err
		}
	}
	if !s.emptyLog {
		return nil
	}
	s.log.Warn("the log does not continue the newest Raft snapshot and is emptied", "first", s.first, "last", s.last,
		"snapshot", s.newest.Index, "term", s.newest.Term)
	return s.logs.DeleteRange(s.first, s.last)
}

func (s *sanitiser) refuseLog(format string, args ...any) error {
	return refuse(s.logFile(), remedyRejoin, format, args...)
}

func (s *sanitiser) logFile() string {
	if _, err := os.Lstat(s.dir.walPath()); err == nil {
		return s.dir.walPath()
	}
	return s.dir.boltPath()
}

// damagedNames appends the names of damaged Raft snapshots to a refusal that they may have caused.
func (s *sanitiser) damagedNames() string {
	text := ""
	for _, c := range s.damaged {
		text += fmt.Sprintf("; %s is damaged: %v", s.snaps.path(c.id), c.err)
	}
	return text
}
