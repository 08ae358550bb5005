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
func (w *progress) awaitPrimary(ctx context.Context, id fsm.VolumeID, node fsm.NodeID, epoch fsm.Epoch) error {
	reason := ""
	err := w.await(ctx, id, "publish", func(state *fsm.State) (done bool, err error) {
		done, reason, err = isPrimary(state, id, node, epoch)
		return done, err
	})
	var rejection *fsm.Rejection
	if reason != "" && errors.As(err, &rejection) && rejection.Reason == fsm.Busy {
		return fsm.Reject(fsm.Busy, "publish volume %s: its replica on node %s is not primary yet: %s; the retry joins", id, node, reason)
	}
	return err
}

// isPrimary tells whether the host reported that it is primary under the publication,
// and what it waits for while it did not.
func isPrimary(state *fsm.State, id fsm.VolumeID, node fsm.NodeID, epoch fsm.Epoch) (done bool, reason string, err error) {
	v, ok := state.Volume(id)
	if !ok {
		return false, "", unknownVolume(id)
	}
	if v.Replication == nil {
		return true, "", nil
	}
	p := v.Publication(node)
	if p == nil || p.Epoch != epoch {
		return false, "", fsm.Reject(fsm.Busy, "publish volume %s: its publication to node %s was ended meanwhile; retry", id, node)
	}
	if state.PromotionDone(v, node) {
		return true, "", nil
	}
	if n, known := state.Node(node); !known || n.Host != p.Host || n.State != fsm.NodeReachable {
		return false, "", fsm.Reject(fsm.Unreachable, "publish volume %s: node %s cannot be reached now", id, node)
	}
	return false, waitReason(state, v), nil
}
