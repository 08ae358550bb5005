package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor/plan"
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

// BackgroundAfter is one round of converge, in which between happens after the spec was made of the desired state.
func (a *Agent) BackgroundAfter(ctx context.Context, id fsm.VolumeID, between func()) error {
	w := a.volumeWorker
	w.mu.Lock()
	v := w.volumes[id]
	w.mu.Unlock()
	v.lock <- struct{}{}
	defer w.unlock(v)
	view, at, err := w.observer.view(ctx, v)
	if err != nil {
		return err
	}
	want := plan.BackgroundSpec(view)
	between()
	_, err = w.runBackground(ctx, v, &want, at, view.IncarnationID)
	return err
}

// DesiredReplication is what the host has been told of the volume's replication.
func (a *Agent) DesiredReplication(id fsm.VolumeID) *fsm.DesiredReplica {
	a.mu.Lock()
	defer a.mu.Unlock()
	if v := a.volumes[id]; v != nil && v.desired != nil {
		return v.desired.Replication
	}
	return nil
}

// DesiredGoal is what the host has been told to do with the volume.
func (a *Agent) DesiredGoal(id fsm.VolumeID) fsm.Goal {
	a.mu.Lock()
	defer a.mu.Unlock()
	if v := a.volumes[id]; v != nil && v.desired != nil {
		return v.desired.Goal
	}
	return 0
}
