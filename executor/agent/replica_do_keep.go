package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// keepVictim takes a snapshot of what the replica has before that is discarded (S9). The log gets a
// record of the copy before it is taken, and acknowledges that it exists before anything is
// discarded (S49). If it cannot be taken, the replica stays taken down and the cause is reported.
func (k *victimKeeper) keepVictim(ctx context.Context, v *volume) error {
	if !k.atLevel2() {
		return k.keepVictimLevel1(ctx, v)
	}
	if !v.replica.keepBackoff.ready(time.Now()) {
		return errNotKept(v)
	}
	v.replica.keepBackoff.noteTry(time.Now())
	id, err := k.proposeKeep(ctx, v, nil, false)
	switch {
	case err != nil:
		return err
	case id == "":
		return errNotKept(v)
	}
	k.hitFaultPoint("keep-loser.asked")
	if err := k.takeVictim(ctx, v, id); err != nil {
		_, reportErr := k.proposeKeep(ctx, v, err, false)
		return errors.Join(err, reportErr)
	}
	k.hitFaultPoint("keep-loser.cut")
	if _, err := k.reports.reportAndWait(ctx, nil, k.keptObservation(v, id)); err != nil {
		return fmt.Errorf("report that snapshot %s keeps the content of the outdated replica of volume %s: %w", id, v.id, err)
	}
	k.hitFaultPoint("keep-loser.reported")
	v.replica.keepBackoff = retryBackoff{}
	k.logger(v).Warn("this replica is outdated: what it had is kept in a snapshot of the pool; see `holdfast volumes kept`", "snapshot", id)
	return k.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) { r.CopyKept = true })
}

// keepVictimLevel1 is keepVictim at feature level 1, where the log has no records of kept copies.
// keptScanLoop reports the copy after the level was raised.
func (k *victimKeeper) keepVictimLevel1(ctx context.Context, v *volume) error {
	id := keptSnapshotIDLevel1(v.id, v.record.Replica.Attachment)
	if err := k.takeVictim(ctx, v, id); err != nil {
		return err
	}
	k.hitFaultPoint("keep-loser.cut")
	k.logger(v).Warn("this replica is outdated: what it had is kept in a snapshot of the pool, until an operator removes that", "snapshot", id)
	return k.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) { r.CopyKept = true })
}

// takeVictim takes the kept copy. An existing one stays as it is.
func (k *victimKeeper) takeVictim(ctx context.Context, v *volume, id fsm.SnapshotID) error {
	rb, err := k.poolSet.replicaBackend(v)
	if err != nil {
		return err
	}
	if rb.checkSnapshotPool() != nil {
		return fmt.Errorf("keep the content of the outdated replica of volume %s: %w", v.id, errPoolCannotKeep)
	}
	if err := rb.TakeSnapshot(ctx, v.id, id, func(int64, int64) {}); err != nil {
		return fmt.Errorf("keep the content of the outdated replica of volume %s as snapshot %s: %w", v.id, id, err)
	}
	return nil
}

// proposeKeep has the log record the kept copy, and returns the copy's id. Cause is why it could
// not be taken, nil when nothing has failed. The id is empty when it is not to be taken.
func (k *victimKeeper) proposeKeep(ctx context.Context, v *volume, cause error, beforeSync bool) (fsm.SnapshotID, error) {
	if err := k.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) { r.CopyAsked = true }); err != nil {
		return "", err
	}
	attachment := v.record.Replica.Attachment
	cmd := &fsmpb.KeepReplica{
		VolumeId: string(v.id), NodeId: string(k.Node), HostId: string(k.Host.ID), BootId: k.Host.BootID,
		Attach: attachment, SnapshotId: string(keptSnapshotID(v.id, k.Host.ID, attachment, v.record.Replica.KeptCopies)), BeforeSync: beforeSync,
	}
	if cause != nil {
		cmd.Trouble = cause.Error()
		sanitizeText(cmd.ProtoReflect())
	}
	outcome, err := k.proposer.propose(ctx, nil, &fsmpb.Command{Body: &fsmpb.Command_KeepReplica{KeepReplica: cmd}})
	if err != nil || cause != nil {
		return "", err
	}
	return fsm.SnapshotID(outcome.GetSnapshotId()), nil
}

func errNotKept(v *volume) error {
	return fsm.Reject(fsm.Busy, "volume %s: the content of its outdated replica cannot be kept in a snapshot now, so it is not discarded; the volume's condition says what to do", v.id)
}

// keptObservation says that the copy is in the pool.
func (k *victimKeeper) keptObservation(v *volume, id fsm.SnapshotID) *fsmpb.Observation {
	k.mu.Lock()
	defer k.mu.Unlock()
	pool := v.record.Pool
	if v.desired != nil && v.desired.Pool != "" {
		pool = v.desired.Pool
	}
	return keptObservationIn(pool, id, v.id, v.record.Replica.Attachment)
}

func keptObservationIn(pool fsm.PoolID, id fsm.SnapshotID, volume fsm.VolumeID, attachment uint64) *fsmpb.Observation {
	ob := plan.ObservationOf(id, volume)
	ob.Fact = &fsmpb.Observation_SnapshotKept{SnapshotKept: &fsmpb.SnapshotKept{
		Attach: attachment, PoolId: string(pool), CutUnixNano: time.Now().UnixNano(),
	}}
	return ob
}

// keptSnapshotID is the id of the kept copy of the data that a victim had on a host in an attachment, after so many earlier
// copies of that attachment. Each host counts its attachments by itself, so both hosts of a volume may have a copy of the
// same number.
func keptSnapshotID(id fsm.VolumeID, host fsm.HostID, attachment, earlier uint64) fsm.SnapshotID {
	name := fmt.Sprintf("holdfast: what %s had on host %s in attachment %d", id, host, attachment)
	if earlier > 0 {
		name += fmt.Sprintf(" after %d copies", earlier)
	}
	return namedSnapshotID(name)
}

// keptSnapshotIDLevel1 is the id at feature level 1, where the hosts' copies are in their own pools only.
func keptSnapshotIDLevel1(id fsm.VolumeID, attachment uint64) fsm.SnapshotID {
	return namedSnapshotID(fmt.Sprintf("holdfast: what %s had in attachment %d", id, attachment))
}

func namedSnapshotID(name string) fsm.SnapshotID {
	return fsm.SnapshotIDFrom(uuid.NewSHA1(uuid.NameSpaceOID, []byte(name)))
}
