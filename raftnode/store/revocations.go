package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Revoked is what is revoked of one identity, as the state had it.
type Revoked struct {
	Role        string    `json:"role"`
	Name        string    `json:"name"`
	Serials     []string  `json:"serials,omitempty"`
	IssuedUntil time.Time `json:"issued_until,omitzero"`
	Reason      string    `json:"reason,omitempty"`
}

// Revocations are those that the member had applied at an index of the log. After a restart without a quorum
// the member's state may be older: it is the last Raft snapshot's.
type Revocations struct {
	Index   uint64    `json:"index"`
	Revoked []Revoked `json:"revoked"`
}

func (d dataDir) revocationsPath() string { return filepath.Join(d.root, "revocations.json") }

// RecordRevocations durably records them.
func (s *Store) RecordRevocations(r Revocations) error {
	if err := s.dir.writeChecksummed(s.dir.revocationsPath(), s.MemberID, r); err != nil {
		return fmt.Errorf("record the revocations: %w", err)
	}
	return nil
}

// Revocations returns what RecordRevocations recorded last; none when it never did.
func (s *Store) Revocations() (r Revocations, err error) {
	switch err := readChecksummed(s.dir.revocationsPath(), s.MemberID, &r); {
	case errors.Is(err, os.ErrNotExist):
		return Revocations{}, nil
	case err != nil:
		return r, refuse(s.dir.revocationsPath(), "put this member's own file back, or "+remedyRejoin, "cannot be read: %w", err)
	}
	return r, nil
}
