package agent

import (
	"github.com/holdfast-storage/holdfast/fsm"
)

// Handlers counts the kernel's handlers that wait for the verdict about the volume's peer.
func (a *Agent) Handlers(id fsm.VolumeID) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if v := a.volumes[id]; v != nil && v.replica.fencePeerRequest != nil {
		return v.replica.fencePeerRequest.handlers
	}
	return 0
}
