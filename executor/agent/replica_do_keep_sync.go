package agent

import (
	"context"
	"errors"
	"fmt"
)

var (
	errPoolCopies  = errors.New("its pool takes no snapshot without copying")
	errKeepNothing = errors.New("it was asked for without a copy")
)

// keepBeforeSync takes a snapshot of what a secondary has before it becomes the target of a resynchronisation (S50): if the
// source dies in the middle, there is an older whole content. It is worth no copying and no waiting: where it cannot be
// taken at once, the log is told why, and the replica is brought up to date without.
func (k *victimKeeper) keepBeforeSync(ctx context.Context, v *volume, unkept bool) error {
	if why := k.cannotCut(v, unkept); why != nil {
		return k.syncUnkept(ctx, v, why)
	}
	id, err := k.proposeKeep(ctx, v, nil, true)
	if err != nil || id == "" { // the log said no, and recorded why
		return err
	}
	k.hitFaultPoint("keep-before-sync.asked")
	switch err := k.takeVictim(ctx, v, id); {
	case ctx.Err() != nil:
		return err
	case err != nil:
		return k.syncUnkept(ctx, v, err)
	}
	k.hitFaultPoint("keep-before-sync.cut")
	if _, err := k.reports.reportAndWait(ctx, nil, k.keptObservation(v, id)); err != nil {
		return fmt.Errorf("report that snapshot %s keeps what the replica of volume %s had before it is synchronised: %w", id, v.id, err)
	}
	k.hitFaultPoint("keep-before-sync.reported")
	k.logger(v).Info("what this replica has is kept until it is synchronised", "snapshot", id)
	return nil
}

// cannotCut is why no snapshot is to be taken, nil when one is.
func (k *victimKeeper) cannotCut(v *volume, unkept bool) error {
	rb, err := k.poolSet.replicaBackend(v)
	switch {
	case err != nil:
		return err
	case unkept:
		return errKeepNothing
	case rb.checkSnapshotPool() != nil:
		return errPoolCannotKeep
	case !rb.SharesBlocks():
		return errPoolCopies
	}
	return nil
}

// syncUnkept has the replica synchronised although what it has is not kept; the volume's condition says so.
func (k *victimKeeper) syncUnkept(ctx context.Context, v *volume, why error) error {
	k.logger(v).Warn("what this replica has is not kept before it is synchronised", "reason", why)
	_, err := k.proposeKeep(ctx, v, why, true)
	return err
}
