package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// EntryName names one entry of the log, the same on every member that has it committed.
type EntryName struct {
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
	Hash  string `json:"hash"` // sha256 of its content, in hex
}

// Fault is the committed entry at which this member last ended, as the state could not
// take it. Raft gives the state committed entries only, so the record proves the commit.
type Fault struct {
	EntryName
	What string    `json:"what"`
	At   time.Time `json:"at"`
}

// Skip is an operator's decision that the state passes a committed entry over.
type Skip struct {
	EntryName
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

func (d dataDir) faultPath() string { return filepath.Join(string(d), "fault.json") }
func (d dataDir) skipsPath() string { return filepath.Join(string(d), "skips.json") }

// RecordFault remembers where the member ended.
func (s *Store) RecordFault(f Fault) error {
	if err := writeChecksummed(s.dir.faultPath(), s.MemberID, f); err != nil {
		return fmt.Errorf("record the fault: %w", err)
	}
	return nil
}

// Fault is what RecordFault remembered last, nil when this member never ended so.
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

// Skips are the entries that this member passes over, in the order of their indexes.
// They are this member's own: a file of another one is refused.
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
			return nil, refuse(s.dir.skipsPath(), remedyRejoin, "entry %d stands behind entry %d", all[i].Index, all[i-1].Index)
		}
	}
	return all, nil
}

// AddSkip has the state pass the entry over from the next start on. It must be above
// those that are recorded.
func (s *Store) AddSkip(k Skip) error {
	all, err := s.Skips()
	if err != nil {
		return err
	}
	if n := len(all); n > 0 && all[n-1].Index >= k.Index {
		return fmt.Errorf("record a skip of entry %d: entry %d is skipped already", k.Index, all[n-1].Index)
	}
	if err := writeChecksummed(s.dir.skipsPath(), s.MemberID, append(all, k)); err != nil {
		return fmt.Errorf("record a skip of entry %d: %w", k.Index, err)
	}
	return nil
}

// KindOf is the log store that a member's folder was made with. A folder of no member
// is refused.
func KindOf(dir string) (string, error) {
	var id identity
	d := dataDir(dir)
	if err := readChecksummed(d.identityPath(), "", &id); err != nil {
		return "", refuse(d.identityPath(), "name the data folder of a controller", "cannot be read: %w", err)
	}
	return id.LogStore, nil
}
