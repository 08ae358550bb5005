package controller

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/fsm"
)

// awaitPrimary waits until the node's replica is primary under the publication: that is
// the last step of a takeover (S8). For a volume that is not replicated it returns at
// once. Near the deadline it is ABORTED and says what the host waits for; the host
// continues, and the retry joins.
func (p *progress) awaitPrimary(ctx context.Context, id fsm.VolumeID, node fsm.NodeID, epoch fsm.Epoch) error {
	waitsFor := ""
	err := p.await(ctx, id, "publish", func(state *fsm.State) (done bool, rejection *fsm.Rejection) {
		done, waitsFor, rejection = state.VolumePublication(id, node, epoch)
		return done, rejection
	})
	var rejection *fsm.Rejection
	if waitsFor != "" && errors.As(err, &rejection) && rejection.Reason == fsm.Busy {
		return fsm.Reject(fsm.Busy, "publish volume %s: its replica on node %s is not primary yet: %s; the retry joins", id, node, waitsFor)
	}
	return err
}
