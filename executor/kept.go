package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// keepLoser cuts what the replica has before it is discarded (S9). The log makes a record
// of the copy before it is cut, and has heard that it is there before anything is discarded
// (S49). If it cannot be kept, the replica stays torn down, and the log says why.
func (e *Executor) keepLoser(ctx context.Context, v *volume) error {
	if !e.level2() {
		return e.keepUnrecorded(ctx, v)
	}
	if !v.replica.keeping.ready(time.Now()) {
		return errNotKept(v)
	}
	v.replica.keeping.tried(time.Now())
	id, err := e.askToKeep(ctx, v, nil)
	if err != nil {
		return err
	}
	e.hit("keep-loser.asked")
	if err := e.cutLoser(ctx, v, id); err != nil {
		_, told := e.askToKeep(ctx, v, err)
		return errors.Join(err, told)
	}
	if _, err := e.report(ctx, nil, e.keptObservation(v, id)); err != nil {
		return fmt.Errorf("say that snapshot %s keeps what volume %s lost: %w", id, v.id, err)
	}
	e.hit("keep-loser.reported")
	v.replica.keeping = pace{}
	e.logger(v).Warn("this replica lost: what it had is kept in a snapshot of the pool; see `holdfast volumes kept`", "snapshot", id)
	return e.saveReplica(v, func(r *replicaRecord) { r.Kept = true })
}

// keepUnrecorded is keepLoser where the log has no record of it, at feature level 1. It
// hears of the copy when the level has risen (watchCopies).
func (e *Executor) keepUnrecorded(ctx context.Context, v *volume) error {
	id := keptAs(v.id, v.journal.Replica.Attach)
	if err := e.cutLoser(ctx, v, id); err != nil {
		return err
	}
	e.logger(v).Warn("this replica lost: what it had is kept in a snapshot of the pool, until an operator removes that", "snapshot", id)
	return e.saveReplica(v, func(r *replicaRecord) { r.Kept = true })
}

// cutLoser makes the copy. One that is there already stays as it is.
func (e *Executor) cutLoser(ctx context.Context, v *volume, id fsm.SnapshotID) error {
	view, err := e.view(v)
	if err != nil {
		return err
	}
	if view.canCopy() != nil {
		return fmt.Errorf("keep what volume %s lost: %w", v.id, errNoKeeping)
	}
	if err := view.Cut(ctx, v.id, id, func(int64, int64) {}); err != nil {
		return fmt.Errorf("keep what volume %s lost as snapshot %s: %w", v.id, id, err)
	}
	e.hit("keep-loser.cut")
	return nil
}

// askToKeep has the log make a record of the copy, and answers with its name. Trouble is
// why it could not be kept.
func (e *Executor) askToKeep(ctx context.Context, v *volume, trouble error) (fsm.SnapshotID, error) {
	attach := v.journal.Replica.Attach
	c := &fsmpb.KeepReplica{
		VolumeId: string(v.id), NodeId: string(e.Node), HostId: string(e.Host.ID), BootId: e.Host.Boot,
		Attach: attach, SnapshotId: string(keptAs(v.id, attach)),
	}
	if trouble != nil {
		c.Trouble = trouble.Error()
		validText(c.ProtoReflect())
	}
	outcome, err := e.propose(ctx, nil, &fsmpb.Command{Body: &fsmpb.Command_KeepReplica{KeepReplica: c}})
	switch {
	case err != nil || trouble != nil:
		return "", err
	case outcome.GetSnapshotId() == "":
		return "", errNotKept(v)
	}
	return fsm.SnapshotID(outcome.GetSnapshotId()), nil
}

func errNotKept(v *volume) error {
	return fsm.Reject(fsm.Busy, "volume %s: what its replica lost cannot be kept now, so it is not discarded; the volume's condition says what to do", v.id)
}

// keptObservation says that the copy is in the pool.
func (e *Executor) keptObservation(v *volume, id fsm.SnapshotID) *fsmpb.Observation {
	e.mu.Lock()
	defer e.mu.Unlock()
	pool := v.journal.Pool
	if v.wish != nil && v.wish.Pool != "" {
		pool = v.wish.Pool
	}
	return keptIn(pool, id, v.id, v.journal.Replica.Attach)
}

func keptIn(pool fsm.PoolID, id fsm.SnapshotID, volume fsm.VolumeID, attach uint64) *fsmpb.Observation {
	ob := observationOf(id, volume)
	ob.Fact = &fsmpb.Observation_SnapshotKept{SnapshotKept: &fsmpb.SnapshotKept{
		Attach: attach, PoolId: string(pool), CutUnixNano: time.Now().UnixNano(),
	}}
	return ob
}

// keptAs is the snapshot that keeps what a replica had in an attachment when it lost.
func keptAs(id fsm.VolumeID, attach uint64) fsm.SnapshotID {
	name := fmt.Sprintf("holdfast: what %s had in attachment %d", id, attach)
	return fsm.SnapshotID("hs-" + uuid.NewSHA1(uuid.NameSpaceOID, []byte(name)).String())
}

// lookForCopies has watchCopies look.
func (e *Executor) lookForCopies() {
	select {
	case e.unknown <- struct{}{}:
	default: // it will
	}
}

// watchCopies tells the log of kept copies that it does not know, in each session: those of
// feature level 1, and of a log that was restored.
func (e *Executor) watchCopies() {
	for failures := 0; ; {
		select {
		case <-e.ctx.Done():
			return
		case <-e.unknown:
		}
		err := e.tellCopies(e.ctx)
		if err == nil {
			failures = 0
			continue
		}
		failures++
		e.Logger.Warn("the log does not know of all kept copies yet", "error", err)
		_ = pause(e.ctx, backoff(failures))
		e.lookForCopies()
	}
}

// tellCopies says of each kept copy that the host is asked nothing about that it is there.
func (e *Executor) tellCopies(ctx context.Context) error {
	asked, speaks := e.askedSnapshots()
	if !speaks {
		return nil // the next session's first update looks again
	}
	found := map[fsm.SnapshotID]fsm.PoolID{}
	for _, pool := range e.Pools {
		items, err := pool.Inventory(ctx)
		if err != nil {
			return fmt.Errorf("list the snapshots of pool %s: %w", pool.ID(), err)
		}
		for _, item := range items {
			if item.Kind == KindSnapshot && !asked[item.Snapshot] {
				found[item.Snapshot] = pool.ID()
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	for _, ob := range e.copiesAmong(found) {
		_, err := e.report(ctx, nil, ob)
		if errors.Is(err, errOvertaken) {
			e.Logger.Warn("the log does not take a kept copy in", "snapshot", ob.GetSnapshotId(), "volume", ob.GetVolumeId())
		} else if err != nil {
			return err
		}
	}
	return nil
}

// askedSnapshots are those of which the log wants something, and whether this session may
// tell it of others. Looked at before the pools are: what goes meanwhile is not found then.
func (e *Executor) askedSnapshots() (asked map[fsm.SnapshotID]bool, speaks bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	asked = map[fsm.SnapshotID]bool{}
	for id, c := range e.snapshots {
		asked[id] = c.wish != nil
	}
	return asked, e.session.number != 0 && e.session.adopted && e.session.level >= fsm.Level2
}

// mostAttachments bounds how far back copies of one replica are looked for.
const mostAttachments = 4096

// copiesAmong finds kept copies by their names, which follow from the volume and from the
// attachment in which the replica had that.
func (e *Executor) copiesAmong(found map[fsm.SnapshotID]fsm.PoolID) (all []*fsmpb.Observation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, v := range e.volumes {
		r := v.shown.Replica
		if r == nil {
			continue
		}
		for back := uint64(0); back < min(r.Attach, mostAttachments); back++ {
			copied := keptAs(id, r.Attach-back)
			if pool, there := found[copied]; there {
				all = append(all, keptIn(pool, copied, id, r.Attach-back))
			}
		}
	}
	return all
}
