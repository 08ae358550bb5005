package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
)

// ReplicaNow observes this host's replica of a volume in the kernel, under the generation that was known before. It
// waits for no step that is under way. NotFound: there is none.
func (a *Agent) ReplicaNow(ctx context.Context, id fsm.VolumeID) (fsm.ReplicaObservation, error) {
	a.mu.Lock()
	v := a.volumes[id]
	replicated := false
	if v != nil {
		_, replicated = v.replicaMinor()
	}
	a.mu.Unlock()
	if !replicated {
		return fsm.ReplicaObservation{}, fsm.Reject(fsm.NotFound, "volume %s has no replica on this node", id)
	}
	seen, _, err := a.observer.observeReplica(ctx, v)
	return seen, err
}
