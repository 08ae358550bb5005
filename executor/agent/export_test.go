package agent

import (
	"github.com/holdfast-storage/holdfast/fsm"
)

// Handlers counts the kernel's handlers that wait for the verdict about the volume's peer.
func (e *Agent) Handlers(id fsm.VolumeID) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v := e.volumes[id]; v != nil && v.replica.fencePeerRequest != nil {
		return v.replica.fencePeerRequest.handlers
	}
	return 0
}
