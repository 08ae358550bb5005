package controller

import (
	"context"

	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/fsm"
)

// stateQueries reads a state that is not stale.
type stateQueries struct{ client *cluster.Client }

// readReadyVolume is a volume that was returned to a caller.
func (q *stateQueries) readReadyVolume(ctx context.Context, id fsm.VolumeID) (v *fsm.Volume, err error) {
	err = q.readState(ctx, func(state *fsm.State) error {
		v, err = readyVolume(state, id)
		return err
	})
	return v, err
}

// readState reads a state that is not stale.
func (q *stateQueries) readState(ctx context.Context, fn func(*fsm.State) error) error {
	return q.client.ReadState(ctx, fn)
}

// stillPublished tells whether the volume is published there still: its host was requested to
// tear it down, and has not reported that it did.
func (q *stateQueries) stillPublished(ctx context.Context, id fsm.VolumeID, node fsm.NodeID) (published bool, err error) {
	err = q.readState(ctx, func(state *fsm.State) error {
		published = len(publicationsOn(state, id, node)) > 0
		return nil
	})
	return published, err
}
