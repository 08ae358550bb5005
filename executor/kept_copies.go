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

// keepVictim cuts what the replica has before it is discarded (S9). The log makes a record
// of the copy before it is cut, and has heard that it is there before anything is discarded
// (S49). If it cannot be kept, the replica stays torn down, and the log says why.
func (e *Executor) keepVictim(ctx context.Context, v *volume) error {
	if !e.atLevel2() {
		return e.keepVictimLevel1(ctx, v)
	}
	if !v.replica.keepBackoff.ready(time.Now()) {
		return errNotKept(v)
	}
	v.replica.keepBackoff.noteTry(time.Now())
	id, err := e.proposeKeep(ctx, v, nil)
	if err != nil {
		return err
	}
	e.hitFaultPoint("keep-loser.asked")
	if err := e.takeVictim(ctx, v, id); err != nil {
		_, reportErr := e.proposeKeep(ctx, v, err)
		return errors.Join(err, reportErr)
	}
	if _, err := e.reportAndWait(ctx, nil, e.keptObservation(v, id)); err != nil {
		return fmt.Errorf("say that snapshot %s keeps what volume %s lost: %w", id, v.id, err)
	}
	e.hitFaultPoint("keep-loser.reported")
	v.replica.keepBackoff = retryBackoff{}
	e.logger(v).Warn("this replica lost: what it had is kept in a snapshot of the pool; see `holdfast volumes kept`", "snapshot", id)
	return e.saveReplicaRecord(v, func(r *replicaRecord) { r.CopyKept = true })
}

// keepVictimLevel1 is keepVictim where the log has no record of it, at feature level 1. It
// hears of the copy when the level has risen (keptScanLoop).
func (e *Executor) keepVictimLevel1(ctx context.Context, v *volume) error {
	id := keptSnapshotID(v.id, v.record.Replica.Attachment)
	if err := e.takeVictim(ctx, v, id); err != nil {
		return err
	}
	e.logger(v).Warn("this replica lost: what it had is kept in a snapshot of the pool, until an operator removes that", "snapshot", id)
	return e.saveReplicaRecord(v, func(r *replicaRecord) { r.CopyKept = true })
}

// takeVictim makes the copy. One that is there already stays as it is.
func (e *Executor) takeVictim(ctx context.Context, v *volume, id fsm.SnapshotID) error {
	rb, err := e.replicaBackend(v)
	if err != nil {
		return err
	}
	if rb.checkSnapshotPool() != nil {
		return fmt.Errorf("keep what volume %s lost: %w", v.id, errPoolCannotKeep)
	}
	if err := rb.TakeSnapshot(ctx, v.id, id, func(int64, int64) {}); err != nil {
		return fmt.Errorf("keep what volume %s lost as snapshot %s: %w", v.id, id, err)
	}
	e.hitFaultPoint("keep-loser.cut")
	return nil
}

// proposeKeep has the log make a record of the copy, and answers with its name. Trouble is
// why it could not be kept.
func (e *Executor) proposeKeep(ctx context.Context, v *volume, cause error) (fsm.SnapshotID, error) {
	attachment := v.record.Replica.Attachment
	c := &fsmpb.KeepReplica{
		VolumeId: string(v.id), NodeId: string(e.Node), HostId: string(e.Host.ID), BootId: e.Host.BootID,
		Attach: attachment, SnapshotId: string(keptSnapshotID(v.id, attachment)),
	}
	if cause != nil {
		c.Trouble = cause.Error()
		sanitizeText(c.ProtoReflect())
	}
	outcome, err := e.propose(ctx, nil, &fsmpb.Command{Body: &fsmpb.Command_KeepReplica{KeepReplica: c}})
	switch {
	case err != nil || cause != nil:
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
	pool := v.record.Pool
	if v.desired != nil && v.desired.Pool != "" {
		pool = v.desired.Pool
	}
	return keptObservationIn(pool, id, v.id, v.record.Replica.Attachment)
}

func keptObservationIn(pool fsm.PoolID, id fsm.SnapshotID, volume fsm.VolumeID, attachment uint64) *fsmpb.Observation {
	ob := observationOf(id, volume)
	ob.Fact = &fsmpb.Observation_SnapshotKept{SnapshotKept: &fsmpb.SnapshotKept{
		Attach: attachment, PoolId: string(pool), CutUnixNano: time.Now().UnixNano(),
	}}
	return ob
}

// keptSnapshotID is the snapshot that keeps what a replica had in an attachment when it lost.
func keptSnapshotID(id fsm.VolumeID, attachment uint64) fsm.SnapshotID {
	name := fmt.Sprintf("holdfast: what %s had in attachment %d", id, attachment)
	return fsm.SnapshotID("hs-" + uuid.NewSHA1(uuid.NameSpaceOID, []byte(name)).String())
}

// triggerKeptScan has keptScanLoop look.
func (e *Executor) triggerKeptScan() {
	select {
	case e.keptScan <- struct{}{}:
	default: // it will
	}
}

// keptScanLoop tells the log of kept copies that it does not know, in each session: those of
// feature level 1, and of a log that was restored.
func (e *Executor) keptScanLoop() {
	for failures := 0; ; {
		select {
		case <-e.ctx.Done():
			return
		case <-e.keptScan:
		}
		err := e.reportKeptCopies(e.ctx)
		if err == nil {
			failures = 0
			continue
		}
		failures++
		e.Logger.Warn("the log does not know of all kept copies yet", "error", err)
		_ = sleep(e.ctx, retryDelay(failures))
		e.triggerKeptScan()
	}
}

// reportKeptCopies says of each kept copy that the host is asked nothing about that it is there.
func (e *Executor) reportKeptCopies(ctx context.Context) error {
	desired, mayReport := e.desiredSnapshots()
	if !mayReport {
		return nil // the next session's first update looks again
	}
	found := map[fsm.SnapshotID]fsm.PoolID{}
	for _, pool := range e.Pools {
		items, err := pool.Inventory(ctx)
		if err != nil {
			return fmt.Errorf("list the snapshots of pool %s: %w", pool.ID(), err)
		}
		for _, item := range items {
			if item.Kind == KindSnapshot && !desired[item.Snapshot] {
				found[item.Snapshot] = pool.ID()
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	for _, ob := range e.keptAmong(found) {
		_, err := e.reportAndWait(ctx, nil, ob)
		if errors.Is(err, errSuperseded) {
			e.Logger.Warn("the log does not take a kept copy in", "snapshot", ob.GetSnapshotId(), "volume", ob.GetVolumeId())
		} else if err != nil {
			return err
		}
	}
	return nil
}

// desiredSnapshots are those of which the log wants something, and whether this session may
// tell it of others. Looked at before the pools are: what goes meanwhile is not found then.
func (e *Executor) desiredSnapshots() (desired map[fsm.SnapshotID]bool, mayReport bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	desired = map[fsm.SnapshotID]bool{}
	for id, c := range e.snapshots {
		desired[id] = c.desired != nil
	}
	return desired, e.session.number != 0 && e.session.adopted && e.session.level >= fsm.Level2
}

// maxAttachmentsBack bounds how far back copies of one replica are looked for.
const maxAttachmentsBack = 4096

// keptAmong finds kept copies by their names, which follow from the volume and from the
// attachment in which the replica had that.
func (e *Executor) keptAmong(found map[fsm.SnapshotID]fsm.PoolID) (all []*fsmpb.Observation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, v := range e.volumes {
		r := v.recordCopy.Replica
		if r == nil {
			continue
		}
		for offset := uint64(0); offset < min(r.Attachment, maxAttachmentsBack); offset++ {
			copied := keptSnapshotID(id, r.Attachment-offset)
			if pool, there := found[copied]; there {
				all = append(all, keptObservationIn(pool, copied, id, r.Attachment-offset))
			}
		}
	}
	return all
}
