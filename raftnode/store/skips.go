package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// EntryName identifies one entry of the log; it is the same on every member that has it committed.
type EntryName struct {
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
	Hash  string `json:"hash"` // sha256 of its content, in hex
}

// Fault is the committed entry on which the state machine faulted, so that this member exited.
// Raft applies committed entries only, so the record proves that it is committed.
type Fault struct {
	EntryName
	What string    `json:"what"`
	At   time.Time `json:"at"`
}

// Skip is an operator's decision that the state machine skips a committed entry.
type Skip struct {
	EntryName
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

func (d dataDir) faultPath() string { return filepath.Join(d.root, "fault.json") }
func (d dataDir) skipsPath() string { return filepath.Join(d.root, "skips.json") }

// RecordFault durably records the entry at which the member exited.
func (s *Store) RecordFault(f Fault) error {
	if err := s.dir.writeChecksummed(s.dir.faultPath(), s.MemberID, f); err != nil {
		return fmt.Errorf("record the fault: %w", err)
	}
	return nil
}

// Fault returns what RecordFault recorded last, nil when it never did.
func (s *Store) Fault() (*Fault, error) {
	f := new(Fault)
	switch err := readChecksummed(s.dir.faultPath(), s.MemberID, f); {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, refuse(s.dir.faultPath(), "move it elsewhere; the member writes it again when it meets the entry", "cannot be read: %w", err)
	}
	return f, nil
}

// Skips returns the entries that this member skips, by index. They are this member's own: a file
// of another member is refused.
func (s *Store) Skips() ([]Skip, error) {
	var all []Skip
	switch err := readChecksummed(s.dir.skipsPath(), s.MemberID, &all); {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, refuse(s.dir.skipsPath(), "put this member's own file back, or "+remedyRejoin, "cannot be read: %w", err)
	}
	for i := 1; i < len(all); i++ {
		if all[i].Index <= all[i-1].Index {
			return nil, refuse(s.dir.skipsPath(), remedyRejoin, "entry %d is listed after entry %d", all[i].Index, all[i-1].Index)
		}
	}
	return all, nil
}

// AddSkip makes the state machine skip the entry from the next start on. Its index must be above
// those already recorded.
func (s *Store) AddSkip(k Skip) error {
	all, err := s.Skips()
	if err != nil {
		return err
	}
	if n := len(all); n > 0 && all[n-1].Index >= k.Index {
		return fmt.Errorf("record a skip of entry %d: entry %d is skipped already", k.Index, all[n-1].Index)
	}
	if err := s.dir.writeChecksummed(s.dir.skipsPath(), s.MemberID, append(all, k)); err != nil {
		return fmt.Errorf("record a skip of entry %d: %w", k.Index, err)
	}
	return nil
}

// KindOf returns the kind of log store that a member's data directory was created with. A
// directory without a member is refused.
func KindOf(dir string) (string, error) {
	var id identity
	d := dataDir{root: dir}
	if err := readChecksummed(d.identityPath(), "", &id); err != nil {
		return "", refuse(d.identityPath(), "name the data folder of a controller", "cannot be read: %w", err)
	}
	return id.LogStore, nil
}
