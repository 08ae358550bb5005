package controller

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// awaitFormerPrimaryIsolated waits until no unreachable host that lost its publication
// can have a write acknowledged any more: the other replica disconnected and is up to
// date, the second step of a takeover (S8). For a volume that is not replicated it
// returns at once, as no other host has its data (S31). When the time runs out it is
// UNAVAILABLE: the publication is revoked, and the retry waits again.
func (p *progress) awaitFormerPrimaryIsolated(ctx context.Context, id fsm.VolumeID, node fsm.NodeID) error {
	limit := p.isolationTimeout
	if deadline, hasDeadline := ctx.Deadline(); hasDeadline {
		limit = min(limit, time.Until(deadline)*9/10)
	}
	waitCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	waitsFor := ""
	err := p.await(waitCtx, id, "unpublish", func(state *fsm.State) (done bool, _ *fsm.Rejection) {
		done, waitsFor = state.Through(p.client.Site()).VolumeIsolation(id, node)
		return done, nil
	})
	var rejection *fsm.Rejection
	if errors.As(err, &rejection) && rejection.Reason == fsm.Busy {
		return fsm.Reject(fsm.Unreachable, "unpublish volume %s: the publication is revoked, but its other replica is not known to be up to date and disconnected from it: %s; retry", id, waitsFor)
	}
	return err
}
