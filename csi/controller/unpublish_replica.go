package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// awaitFormerPrimaryIsolated waits until no unreachable host that lost its publication
// can have a write acknowledged any more: the other replica disconnected and is up to
// date, the second step of a takeover (S8). For a volume that is not replicated it
// returns at once, as no other host has its data (S31). When the time runs out it is
// UNAVAILABLE: the publication is revoked, and the retry waits again.
func (w *progress) awaitFormerPrimaryIsolated(ctx context.Context, id fsm.VolumeID, node fsm.NodeID) error {
	limit := w.isolationTimeout
	if deadline, hasDeadline := ctx.Deadline(); hasDeadline {
		limit = min(limit, time.Until(deadline)*9/10)
	}
	waitCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	reason := ""
	err := w.await(waitCtx, id, "unpublish", func(state *fsm.State) (done bool, err error) {
		done, reason = formerPrimaryIsolated(state, id, node)
		return done, nil
	})
	var rejection *fsm.Rejection
	if errors.As(err, &rejection) && rejection.Reason == fsm.Busy {
		return fsm.Reject(fsm.Unreachable, "unpublish volume %s: the publication is revoked, but its other replica is not known to be up to date and disconnected from it: %s; retry", id, reason)
	}
	return err
}

// formerPrimaryIsolated tells whether every former primary is isolated, so that the
// publications that ended have no effect any more, and what is waited for while one is
// not.
func formerPrimaryIsolated(state *fsm.State, id fsm.VolumeID, node fsm.NodeID) (done bool, reason string) {
	v, ok := state.Volume(id)
	if !ok || v.Replication == nil {
		return true, ""
	}
	if _, isReady := v.Phase.(fsm.Ready); !isReady {
		return true, "" // no node is published it again
	}
	for _, t := range v.Teardowns {
		if node != "" && t.Node != node || reachable(state, t.Node, t.Host) {
			continue // a reachable host ends it by itself
		}
		if !state.FormerPrimaryIsolated(v.ID) {
			return false, waitReason(state, v)
		}
	}
	return true, ""
}

func reachable(state *fsm.State, node fsm.NodeID, host fsm.HostID) bool {
	n, ok := state.Node(node)
	return ok && n.Host == host && n.State == fsm.NodeReachable
}

// waitReason is what a replicated volume waits for, in words.
func waitReason(state *fsm.State, v *fsm.Volume) string {
	if c := state.ReplicationCondition(v); c.Abnormal {
		return c.Message
	}
	if op := v.OperationOf(fsm.OpTeardown); op != nil && op.LastError != "" {
		return op.LastError
	}
	for _, t := range v.Teardowns {
		return fmt.Sprintf("node %s has not ended its use of it", t.Node)
	}
	return "its host has not said so yet"
}
