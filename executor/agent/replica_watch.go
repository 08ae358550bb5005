package agent

import (
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// watchReplicas queues each volume that the kernel reports an event of.
func (rw *replicaWorker) watchReplicas() {
	for rw.ctx.Err() == nil {
		err := rw.Replicator.Watch(rw.ctx, rw.replicaChanged)
		if rw.ctx.Err() == nil {
			rw.Logger.Warn("cannot receive the kernel's events about replicas", "error", err)
		}
		_ = sleep(rw.ctx, time.Second)
	}
}

func (rw *replicaWorker) replicaChanged(id fsm.VolumeID) {
	rw.mu.Lock()
	_, known := rw.volumes[id]
	rw.mu.Unlock()
	if known {
		rw.volumeQueue.add(id)
	}
}
