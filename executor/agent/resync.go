package agent

import (
	"time"
)

// resync looks at every volume from time to time: what people do to a host's
// images and mounts wakes nobody.
func (e *Agent) resync() {
	ticker := time.NewTicker(e.ResyncInterval)
	defer ticker.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-ticker.C:
			e.mu.Lock()
			for id := range e.volumes {
				e.volumeQueue.add(id)
			}
			for id := range e.snapshots {
				e.snapshotQueue.add(id)
			}
			e.mu.Unlock()
		}
	}
}
