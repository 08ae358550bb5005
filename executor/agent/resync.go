package agent

import (
	"time"
)

// resync queues every volume every ResyncInterval: changes that people make to a host's images
// and mounts cause no event.
func (a *Agent) resync() {
	ticker := time.NewTicker(a.ResyncInterval)
	defer ticker.Stop()
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-ticker.C:
			a.mu.Lock()
			for _, id := range sortedKeys(a.volumes) {
				a.volumeQueue.add(id)
			}
			for _, id := range sortedKeys(a.snapshots) {
				a.snapshotQueue.add(id)
			}
			a.mu.Unlock()
		}
	}
}
