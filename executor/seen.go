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
type seen struct {
	mu    sync.Mutex
	slots *slots
	seenRecord
	disk fsm.Epoch // what the file holds; raise does not write
}

type seenRecord struct {
	At            fsm.Epoch `json:"at"`
	IncarnationID []byte    `json:"incarnation_id"`
}

func openSeen(dir string) (*seen, error) {
	file, content, err := openSlots(filepath.Join(dir, seenFile))
	if err != nil {
		return nil, err
	}
	s := &seen{slots: file}
	if content == nil {
		return s, nil
	}
	if err := json.Unmarshal(content, &s.seenRecord); err != nil {
		return nil, fmt.Errorf("read %s: %w", file.path, err)
	}
	s.disk = s.At
	return s, nil
}

func (s *seen) get() (fsm.Epoch, []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.At, s.IncarnationID
}

// onDisk is what was acted on in the background; get is never below it.
func (s *seen) onDisk() fsm.Epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.disk
}

// reach makes sure that at, or more, is on disk. Many volumes share one write:
// whoever waited for the lock finds it done.
func (s *seen) reach(at fsm.Epoch, incarnationID []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Compare(s.disk) <= 0 {
		return nil
	}
	now := seenRecord{At: at, IncarnationID: incarnationID}
	text, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("record the wishes acted on: %w", err)
	}
	if err := s.slots.write(text, true); err != nil {
		return fmt.Errorf("record the wishes acted on: %w", err)
	}
	s.disk = at
	if at.Compare(s.At) > 0 {
		s.seenRecord = now
	}
	return nil
}

// raise notes an epoch whose record is on disk elsewhere.
func (s *seen) raise(at fsm.Epoch, incarnationID []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Compare(s.At) > 0 {
		s.At = at
		if incarnationID != nil {
			s.IncarnationID = incarnationID
		}
	}
}
