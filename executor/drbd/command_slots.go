package drbd

import (
	"fmt"
	"sync"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// commandSlots lets one command run at a time for each resource, and none behind one that was
// killed and still waits in the kernel.
type commandSlots struct {
	mu      sync.Mutex
	running map[fsm.VolumeID]struct{}        // a command of this process runs
	stuck   map[fsm.VolumeID]<-chan struct{} // a killed command still waits in the kernel
}

func newCommandSlots() *commandSlots {
	return &commandSlots{running: map[fsm.VolumeID]struct{}{}, stuck: map[fsm.VolumeID]<-chan struct{}{}}
}

// claim takes a resource's slot; ErrReplicatorBusy while it is taken, or a killed command is stuck.
func (s *commandSlots) claim(id fsm.VolumeID, action string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, taken := s.running[id]
	if taken || s.isStuck(id) {
		return fmt.Errorf("%s %s: %w", action, id, executor.ErrReplicatorBusy)
	}
	s.running[id] = struct{}{}
	return nil
}

// isStuck reports whether a killed command still waits in the kernel. The caller holds mu.
func (s *commandSlots) isStuck(id fsm.VolumeID) bool {
	exited, found := s.stuck[id]
	if !found {
		return false
	}
	select {
	case <-exited:
		delete(s.stuck, id)
		return false
	default:
		return true
	}
}

// release gives a resource's slot back.
func (s *commandSlots) release(id fsm.VolumeID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, id)
}

// markStuck records that a killed command waits in the kernel until exited is closed.
func (s *commandSlots) markStuck(id fsm.VolumeID, exited <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stuck[id] = exited
}
