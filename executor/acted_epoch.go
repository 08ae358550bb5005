package executor

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/holdfast-storage/holdfast/fsm"
)

// seen is the highest epoch of wishes that the host acted on, on disk before it
// acts (S14), with the id of its incarnation (S1).
type actedEpoch struct {
	mu   sync.Mutex
	file *slotFile
	actedRecord
	synced fsm.Epoch // what the file holds; raise does not write
}

type actedRecord struct {
	At            fsm.Epoch `json:"at"`
	IncarnationID []byte    `json:"incarnation_id"`
}

func openActedEpoch(dir string) (*actedEpoch, error) {
	file, content, err := openSlotFile(filepath.Join(dir, actedFile))
	if err != nil {
		return nil, err
	}
	s := &actedEpoch{file: file}
	if content == nil {
		return s, nil
	}
	if err := json.Unmarshal(content, &s.actedRecord); err != nil {
		return nil, fmt.Errorf("read %s: %w", file.path, err)
	}
	s.synced = s.At
	return s, nil
}

func (s *actedEpoch) current() (fsm.Epoch, []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.At, s.IncarnationID
}

// onDisk is what was acted on in the background; get is never below it.
func (s *actedEpoch) onDisk() fsm.Epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

// reach makes sure that at, or more, is on disk. Many volumes share one write:
// whoever waited for the lock finds it done.
func (s *actedEpoch) persist(at fsm.Epoch, incarnationID []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Compare(s.synced) <= 0 {
		return nil
	}
	now := actedRecord{At: at, IncarnationID: incarnationID}
	text, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("record the wishes acted on: %w", err)
	}
	if err := s.file.write(text, true); err != nil {
		return fmt.Errorf("record the wishes acted on: %w", err)
	}
	s.synced = at
	if at.Compare(s.At) > 0 {
		s.actedRecord = now
	}
	return nil
}

// advance notes an epoch whose record is on disk elsewhere.
func (s *actedEpoch) advance(at fsm.Epoch, incarnationID []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Compare(s.At) > 0 {
		s.At = at
		if incarnationID != nil {
			s.IncarnationID = incarnationID
		}
	}
}
