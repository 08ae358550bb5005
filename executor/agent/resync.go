package agent

import (
	"time"
)

// resync queues every volume every ResyncInterval: changes that people make to a host's images
// and mounts cause no event.
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
