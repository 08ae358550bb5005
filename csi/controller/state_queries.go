package controller

import (
	"context"

	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/fsm"
)

// stateQueries reads a state that is not stale.
type stateQueries struct{ client *cluster.Client }

// readKnownVolume is a volume that was returned to a caller.
func (q *stateQueries) readKnownVolume(ctx context.Context, id fsm.VolumeID) (v *fsm.Volume, err error) {
	err = q.readState(ctx, func(state *fsm.State) error {
		known, rejection := state.KnownVolume(id)
		if rejection != nil {
			return rejection
		}
		v = known
		return nil
	})
	return v, err
}

// readState reads a state that is not stale.
func (q *stateQueries) readState(ctx context.Context, fn func(*fsm.State) error) error {
	return q.client.ReadState(ctx, fn)
}

// publicationsHeld are the volume's on that node, or all when node is empty, that the caller's unpublish ends.
func (q *stateQueries) publicationsHeld(ctx context.Context, id fsm.VolumeID, node fsm.NodeID) (held []fsm.Publication, err error) {
	err = q.readState(ctx, func(state *fsm.State) error {
		held = state.Through(q.client.Site()).UnpublishProgress(q.client.Actor(), id, node).Held
		return nil
	})
	return held, err
}
