package agent

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
)

// reserveSequence issues the volume's next sequence number for this host's reports (S16). Once the
// volume has a record on disk, the number is reserved there before it is used; before that
// nothing was handed out, and counting from the log's last number is enough. The caller
// holds the volume's lock.
func (rc *recorder) reserveSequence(v *volume) (uint64, error) {
	rc.mu.Lock()
	var applied uint64
	if v.desired != nil {
		applied = v.desired.Sequence
	}
	rc.mu.Unlock()
	number := v.record.NextSequence(applied)
	if v.record.MustReserve() && v.record.OnDisk() {
		if err := rc.saveRecord(v, true); err != nil {
			return 0, fmt.Errorf("reserve record numbers of volume %s: %w", v.id, err)
		}
	}
	return number, nil
}

// saveReplicaRecord changes the replica's part of the record, synced. The caller holds the volume's lock.
func (rc *recorder) saveReplicaRecord(v *volume, change func(*records.ReplicaRecord)) error {
	now := records.ReplicaRecord{}
	if v.record.Replica != nil {
		now = *v.record.Replica
	}
	rc.mu.Lock()
	if minor, ok := v.replicaMinor(); ok {
		now.Minor = minor
	}
	if v.desired != nil && v.desired.Pool != "" {
		v.record.Pool = v.desired.Pool
		v.record.Encrypted = v.desired.Encrypted
	}
	rc.mu.Unlock()
	change(&now)
	v.record.Replica = &now
	return rc.saveRecord(v, true)
}

// recordShared records the generation that both replicas have, before the log learns that they are
// together: what a disk has later is compared with it. The caller holds the volume's lock.
func (rc *recorder) recordShared(v *volume, h *plan.ObservedReplica) error {
	r := v.record.Replica
	shared := h.Connection == plan.ConnConnected && h.BothUpToDate() && h.UUID != 0 && h.BitmapUUID == 0
	if r == nil || !shared || r.SharedUUID == h.UUID {
		return nil
	}
	return rc.saveReplicaRecord(v, func(r *records.ReplicaRecord) { r.SharedUUID = h.UUID })
}

// refreshRecordCopy copies the volume's record for readers, and indexes its targets. The caller
// holds table.mu, or is alone.
func (t *table) refreshRecordCopy(v *volume) {
	for i := range v.recordCopy.Targets {
		if realPath := t.realPath(v.recordCopy.Targets[i].Path); t.targetOwners[realPath] == v.id {
			delete(t.targetOwners, realPath)
		}
	}
	if !sameStaging(v.recordCopy.Staging, v.record.Staging) {
		v.stagingChanges++
		v.forgetAckedLimits() // with a staging's end the log forgets the limits that it had reported
	}
	v.recordCopy = v.record.VolumeRecord
	for i := range v.recordCopy.Targets {
		t.targetOwners[t.realPath(v.recordCopy.Targets[i].Path)] = v.id
	}
}

// openRecord reads the volume's record, once. The caller holds the volume's lock.
func (rc *recorder) openRecord(v *volume) error {
	if v.record == nil {
		file, err := records.OpenRecordFile(rc.Host.Dir(), v.id)
		if err != nil {
			return err
		}
		v.record = file
	}
	return rc.pruneOutbox(v)
}

// pruneOutbox drops acknowledged records from the outbox. It need not be synced: a repeated
// report is ignored (S16).
func (rc *recorder) pruneOutbox(v *volume) error {
	rc.mu.Lock()
	acked := v.ackedTeardown
	rc.mu.Unlock()
	var left []records.PendingTeardown
	for _, t := range v.record.PendingTeardowns {
		if t.Sequence > acked {
			left = append(left, t)
		}
	}
	if len(left) == len(v.record.PendingTeardowns) {
		return nil
	}
	v.record.PendingTeardowns = left
	return rc.saveRecord(v, false)
}

// saveRecord writes the volume's record.
func (rc *recorder) saveRecord(v *volume, sync bool) error {
	rc.hitFaultPoint("save-record.before")
	err := v.record.Save(sync)
	rc.hitFaultPoint("save-record.after")
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.refreshRecordCopy(v)
	return err
}
