package records

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/holdfast-storage/holdfast/fsm"
)

// ActedEpoch is the highest epoch of desired state that the host acted on, with the id of its
// incarnation (S1). It is on disk before the host acts (S14).
type ActedEpoch struct {
	mu   sync.Mutex
	file *SlotFile
	actedRecord
	synced fsm.Epoch // what the file holds; Advance does not write
}

type actedRecord struct {
	At            fsm.Epoch `json:"at"`
	IncarnationID []byte    `json:"incarnation_id"`
}

// OpenActedEpoch reads the acted epoch; the zero Epoch where none was recorded.
func OpenActedEpoch(dir string) (*ActedEpoch, error) {
	file, content, err := openSlotFile(filepath.Join(dir, actedFile))
	if err != nil {
		return nil, err
	}
	s := &ActedEpoch{file: file}
	if content == nil {
		return s, nil
	}
	if err := json.Unmarshal(content, &s.actedRecord); err != nil {
		return nil, fmt.Errorf("read %s: %w", file.path, err)
	}
	s.synced = s.At
	return s, nil
}

// Current is the acted epoch and the id of its incarnation, in memory.
func (s *ActedEpoch) Current() (fsm.Epoch, []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.At, s.IncarnationID
}

// OnDisk is the epoch that the file holds. Current is never below it.
func (s *ActedEpoch) OnDisk() fsm.Epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

// Persist returns when the file holds at, or a higher epoch. Concurrent callers share one
// write: one that waited for the lock finds it done.
func (s *ActedEpoch) Persist(at fsm.Epoch, incarnationID []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Compare(s.synced) <= 0 {
		return nil
	}
	now := actedRecord{At: at, IncarnationID: incarnationID}
	text, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("record the acted epoch: %w", err)
	}
	if err := s.file.write(text, true); err != nil {
		return fmt.Errorf("record the acted epoch: %w", err)
	}
	s.synced = at
	if at.Compare(s.At) > 0 {
		s.actedRecord = now
	}
	return nil
}

// Advance raises the epoch in memory; another synced record holds it already.
func (s *ActedEpoch) Advance(at fsm.Epoch, incarnationID []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Compare(s.At) > 0 {
		s.At = at
		if incarnationID != nil {
			s.IncarnationID = incarnationID
		}
	}
}
