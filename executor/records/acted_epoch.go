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
	writing sync.Mutex // held over a write, and taken before mu
	write   func(content []byte, sync bool) error

	// mu is never held over a write: who asks for the epoch may hold a lock that everybody needs.
	mu sync.Mutex
	actedRecord
	synced  fsm.Epoch // what the file holds; Advance does not write
	pending fsm.Epoch // what is being written
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
	s := &ActedEpoch{write: file.write}
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

// OnDisk is the epoch that the file holds, or will hold when the write that is under way ends. It
// does not wait for that write.
func (s *ActedEpoch) OnDisk() fsm.Epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending.Compare(s.synced) > 0 {
		return s.pending
	}
	return s.synced
}

// Persist returns when the file holds at, or a higher epoch. Concurrent callers share one
// write: one that waited for the lock finds it done.
func (s *ActedEpoch) Persist(at fsm.Epoch, incarnationID []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if !s.begin(at) {
		return nil
	}
	now := actedRecord{At: at, IncarnationID: incarnationID}
	text, err := json.Marshal(now)
	if err == nil {
		err = s.write(text, true)
	}
	s.end(now, err)
	if err != nil {
		return fmt.Errorf("record the acted epoch: %w", err)
	}
	return nil
}

// begin notes that at is being written; false when the file holds it. The caller holds writing.
func (s *ActedEpoch) begin(at fsm.Epoch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Compare(s.synced) <= 0 {
		return false
	}
	s.pending = at
	return true
}

// end notes how the write ended. The caller holds writing.
func (s *ActedEpoch) end(written actedRecord, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = fsm.Epoch{}
	if err != nil {
		return
	}
	s.synced = written.At
	if written.At.Compare(s.At) > 0 {
		s.actedRecord = written
	}
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
