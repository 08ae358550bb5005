package backup

import (
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// The kinds of a backup.
const (
	Full      = "full"      // the state at an index
	Increment = "increment" // the commands above an index, up to another
)

var (
	// ErrDamaged: the file is not as it was written, or is no backup at all.
	ErrDamaged = errors.New("the backup cannot be used")
	// ErrNewer: a newer build wrote the file, in a format or of a feature level that this build does not know.
	ErrNewer = errors.New("it was written by a newer build")
	// ErrMismatch: the files do not belong together, or do not reach the index that was asked for.
	ErrMismatch = errors.New("the backups do not fit")
)

// Header says what a backup is of.
type Header struct {
	Kind          string    `json:"kind"`
	ClusterID     string    `json:"cluster"`
	Incarnation   uint64    `json:"incarnation"`
	IncarnationID string    `json:"incarnation_id"`  // hex
	Since         uint64    `json:"since,omitempty"` // of an increment: it has the commands above this index
	Index         uint64    `json:"index"`           // of the state, or of the state after the increment
	Term          uint64    `json:"term"`            // of the last command
	FeatureLevel  uint32    `json:"feature_level"`
	StateHash     string    `json:"state_hash"` // hex, at Index
	Time          time.Time `json:"time"`       // when the backup was begun, by the clock of its member
	Member        string    `json:"member"`     // the controller that wrote it
}

// headerOf describes a state, for either kind.
func headerOf(s *fsm.State, term uint64, member string, now time.Time) Header {
	hash := s.Hash()
	h := Describe(s.Cluster())
	h.Term, h.StateHash, h.Time, h.Member = term, hex.EncodeToString(hash[:]), now.UTC().Truncate(time.Second), member
	return h
}

// Describe is the part of a header that a cluster alone has.
func Describe(c fsm.Cluster) Header {
	return Header{
		Kind: Full, ClusterID: c.ID, Incarnation: c.Incarnation, IncarnationID: hex.EncodeToString(c.IncarnationID),
		Index: c.Index, FeatureLevel: c.FeatureLevel,
	}
}

// continues tells whether both are of one life of one cluster: indexes are issued again after a restore.
func (h *Header) continues(full *Header) bool {
	return h.ClusterID == full.ClusterID && h.Incarnation == full.Incarnation && h.IncarnationID == full.IncarnationID
}

// life names the incarnation.
func (h *Header) life() string { return fmt.Sprintf("%d (%s)", h.Incarnation, h.IncarnationID) }

// check refuses what this build cannot use.
func (h *Header) check() error {
	switch {
	case h.Kind != Full && h.Kind != Increment:
		return fmt.Errorf("%w: it is of the unknown kind %q", ErrNewer, h.Kind)
	case h.FeatureLevel > fsm.MaxFeatureLevel:
		return fmt.Errorf("%w: its feature level is %d, this build understands %d at most", ErrNewer, h.FeatureLevel, fsm.MaxFeatureLevel)
	case h.ClusterID == "" || h.Since > h.Index:
		return fmt.Errorf("%w: its header names no cluster, or ends before it begins", ErrDamaged)
	}
	return nil
}

// mismatch compares a state with what the header says of it.
func (h *Header) mismatch(s *fsm.State) error {
	got := headerOf(s, h.Term, h.Member, h.Time)
	switch {
	case got.ClusterID != h.ClusterID:
		return fmt.Errorf("%w: its state is of cluster %s, its header says %s", ErrDamaged, got.ClusterID, h.ClusterID)
	case got.Incarnation != h.Incarnation || got.IncarnationID != h.IncarnationID:
		return fmt.Errorf("%w: the state is of incarnation %d (%s), its header says %d (%s)", ErrMismatch, got.Incarnation, got.IncarnationID, h.Incarnation, h.IncarnationID)
	case got.Index != h.Index || got.StateHash != h.StateHash || got.FeatureLevel != h.FeatureLevel:
		return fmt.Errorf("%w: the state at index %d has hash %s, its header says index %d and hash %s", ErrMismatch, got.Index, got.StateHash, h.Index, h.StateHash)
	}
	return nil
}
