package raftnode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/journal"
)

// Survivor is a stopped member with everything that it has, whether it is known to be committed or not (S24).
type Survivor struct {
	*Offline
	path  string
	State *fsm.State // after the whole log
	// LastIndex and LastTerm are of the last entry of the log, or of the Raft snapshot without one.
	LastIndex, LastTerm uint64
	SnapshotIndex       uint64
	Configuration       raft.Configuration // the last one, committed or not
	// Former is the one before it, which was committed: Raft appends no other before that. Empty: the last one is the
	// Raft snapshot's, or the first.
	Former raft.Configuration
}

// OpenSurvivor opens a stopped member's data directory with all checks of Open, and replays its log. Close
// releases it. What a newer build wrote is refused before anything of the directory is changed: its whole log is to become the
// state, and this build cannot apply that.
func OpenSurvivor(dir string) (*Survivor, error) {
	o, err := openOffline(dir, checkEntryKnown)
	if err != nil {
		return nil, err
	}
	s := &Survivor{Offline: o, path: filepath.Clean(dir), State: fsm.New()}
	if err = s.begin(); err == nil {
		err = s.eachEntry(nil)
	}
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return s, nil
}

// begin takes what the newest Raft snapshot has.
func (s *Survivor) begin() error {
	snapshots, err := s.Snapshots.List()
	if err != nil || len(snapshots) == 0 {
		return err
	}
	newest := snapshots[0]
	if s.dump.state == nil || s.dump.index != newest.Index {
		return fmt.Errorf("the Raft snapshot at index %d was not read", newest.Index)
	}
	s.State = s.dump.state.Fork()
	s.SnapshotIndex, s.LastIndex, s.LastTerm, s.Configuration = newest.Index, newest.Index, newest.Term, newest.Configuration
	return nil
}

// eachEntry applies the log above the Raft snapshot.
func (s *Survivor) eachEntry(applied func(l *raft.Log, o *fsmpb.Outcome) error) error {
	_, last, snapshot, err := s.Bounds()
	if err != nil {
		return err
	}
	recorded, err := s.Skips()
	if err != nil {
		return err
	}
	skips := skipSet{}
	for _, k := range recorded {
		skips[k.Index] = k
	}
	for i := snapshot + 1; i <= last; i++ {
		l := new(raft.Log)
		if err := s.Logs.GetLog(i, l); err != nil {
			return fmt.Errorf("read entry %d of the log: %w", i, err)
		}
		if err := s.applyEntry(l, skips, applied); err != nil {
			return err
		}
	}
	return nil
}

func (s *Survivor) applyEntry(l *raft.Log, skips skipSet, applied func(*raft.Log, *fsmpb.Outcome) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("entry %d cannot be applied: %v; start a build that can, or see `holdfast log skip`", l.Index, cause)
		}
	}()
	s.LastIndex, s.LastTerm = l.Index, l.Term
	switch l.Type {
	case raft.LogConfiguration:
		s.Former, s.Configuration = s.Configuration, raft.DecodeConfiguration(l.Data)
	case raft.LogCommand:
		if l.Index <= s.State.Cluster().Index {
			return nil
		}
		r := skips.applyOrSkip(s.State, l, skips.decodeCommand(l), s.apply)
		if applied != nil {
			return applied(l, r.Outcome)
		}
	default: // Raft's own
	}
	return nil
}

// Voters are the ids of the last configuration's voters and, as that may not be committed, of those of the one before:
// either may have a quorum that went on without the survivor.
func (s *Survivor) Voters() []string {
	ids := voterIDs(s.Configuration)
	for _, server := range s.FormerVoters() {
		ids = append(ids, string(server.ID))
	}
	return ids
}

// FormerVoters are those of the configuration before the last one that do not vote in that.
func (s *Survivor) FormerVoters() (all []raft.Server) {
	for _, server := range s.Former.Servers {
		if server.Suffrage == raft.Voter && !slices.Contains(voterIDs(s.Configuration), string(server.ID)) {
			all = append(all, server)
		}
	}
	return all
}

func voterIDs(c raft.Configuration) (ids []string) {
	for _, server := range c.Servers {
		if server.Suffrage == raft.Voter {
			ids = append(ids, string(server.ID))
		}
	}
	return ids
}

// Alone tells a member that is the only voter of its last configuration, and so needs nobody else.
func (s *Survivor) Alone() bool { return slices.Equal(voterIDs(s.Configuration), []string{s.MemberID}) }

// FormerDir is where the directory of the recovered member is kept.
func (s *Survivor) FormerDir() string {
	return fmt.Sprintf("%s.before-%d", s.path, NextIncarnation(s.State, 0))
}

// CheckRecover refuses when the directory cannot be exchanged for another.
func (s *Survivor) CheckRecover() error {
	if s.State.Cluster().ID == "" {
		return fmt.Errorf("%w: %s holds no cluster", ErrRebuildRefused, s.path)
	}
	if s.Alone() {
		return fmt.Errorf("%w: member %s is the only voter of its cluster and needs nobody else: start it", ErrRebuildRefused, s.MemberID)
	}
	if err := checkNoMount(s.path); err != nil {
		return err
	}
	unexchanged, err := s.isUnexchanged(s.FormerDir())
	if err == nil && !unexchanged {
		if _, err := os.Lstat(s.FormerDir()); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %s is there already: move it away", ErrRebuildRefused, s.FormerDir())
		}
	}
	return err
}

// isUnexchanged tells a directory that an interrupted recovery of this member made and did not put in its
// place: it was never used.
func (s *Survivor) isUnexchanged(dir string) (bool, error) {
	made, err := ReadRebuilt(dir)
	return made != nil && made.Former == s.MemberID, err
}

// Recover makes the data directory of a new member of everything that the survivor has, and exchanges the two: the
// former one is then at FormerDir. Repeated after an interruption it begins again, or finds that it is done. It closes
// the survivor.
func (s *Survivor) Recover(r Rebuild) (made Rebuilt, err error) {
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.CheckRecover(); err != nil {
		return made, err
	}
	unfinished, former := s.path+".recovering", s.FormerDir()
	if err := removeUnfinished(unfinished); err != nil {
		return made, fmt.Errorf("begin the recovery again: %w", err)
	}
	if again, err := s.isUnexchanged(former); err != nil {
		return made, err
	} else if again {
		if err := removeUnfinished(former); err != nil {
			return made, fmt.Errorf("begin the recovery again: %w", err)
		}
	}
	r.State, r.Index, r.Term = s.State, s.LastIndex, s.LastTerm
	made, err = r.build(unfinished, Rebuilt{Kind: "recover", Former: s.MemberID}, func() error { return s.carryJournal(unfinished) })
	if err != nil {
		return made, fmt.Errorf("recover into %s: %w", unfinished, err)
	}
	if err := r.at("marker"); err != nil {
		return made, err
	}
	if err := r.writeMarker(s.path, made.Member); err != nil {
		return made, err
	}
	return made, s.exchange(&r, unfinished, former)
}

// carryJournal copies the history, and appends what the survivor had not applied.
func (s *Survivor) carryJournal(to string) (err error) {
	target := filepath.Join(to, "journal")
	if err := copyFiles(filepath.Join(s.path, "journal"), target); err != nil {
		return fmt.Errorf("copy the journal: %w", err)
	}
	j, err := journal.Open(journal.Options{Dir: target, RetainBytes: 1 << 40}) // the member cuts it to its own limit
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	if s.SnapshotIndex > 0 {
		if err := j.Restored(s.SnapshotIndex); err != nil {
			return err
		}
	}
	again := &Survivor{Offline: s.Offline, State: fsm.New()}
	if err := again.begin(); err != nil {
		return err
	}
	err = again.eachEntry(func(l *raft.Log, o *fsmpb.Outcome) error {
		outcome, err := proto.Marshal(o)
		if err != nil {
			return err
		}
		return j.Append(journal.Entry{Index: l.Index, Term: l.Term, Command: l.Data, Outcome: outcome, Chain: again.State.Cluster().Chain})
	})
	if err != nil {
		return err
	}
	return j.Sync(s.LastIndex)
}

// exchange puts the new directory in the place of the former one, in one step. Between the two locks of the former
// one it looks whether a controller was started on it.
func (s *Survivor) exchange(r *Rebuild, unfinished, former string) error {
	mark, err := os.ReadFile(filepath.Join(s.path, "vote.json"))
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	stopped, err := os.Stat(filepath.Join(s.path, "stopped"))
	if err != nil {
		return fmt.Errorf("%w: a controller was started on %s meanwhile: stop it", ErrRebuildRefused, s.path)
	}
	lock, err := lockDir(s.path)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	now, err := os.Stat(filepath.Join(s.path, "stopped"))
	vote, voteErr := os.ReadFile(filepath.Join(s.path, "vote.json"))
	if err != nil || voteErr != nil || !os.SameFile(stopped, now) || !bytes.Equal(mark, vote) {
		return fmt.Errorf("%w: a controller was started on %s meanwhile: stop it", ErrRebuildRefused, s.path)
	}
	if err := r.at("name"); err != nil {
		return err
	}
	if err := os.Rename(unfinished, former); err != nil {
		return err
	}
	if err := r.at("exchange"); err != nil {
		return err
	}
	if err := unix.Renameat2(unix.AT_FDCWD, former, unix.AT_FDCWD, s.path, unix.RENAME_EXCHANGE); err != nil {
		return fmt.Errorf("exchange %s and %s: %w", former, s.path, err)
	}
	return durablefile.SyncDir(filepath.Dir(s.path))
}

// Close closes the log and releases the directory; a second call does nothing.
func (s *Survivor) Close() error {
	if s.Offline == nil {
		return nil
	}
	o := s.Offline
	s.Offline = nil
	return o.Close()
}

func copyFiles(from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if err := copyFile(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return err
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
