package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// triggerKeptScan has keptScanLoop scan.
func (t *table) triggerKeptScan() {
	select {
	case t.keptScan <- struct{}{}:
	default: // a scan is due already
	}
}

// keptScanLoop reports, in each session, the kept copies that the log does not have: those made at
// feature level 1, and those that a restored log lacks.
func (k *keptScanner) keptScanLoop() {
	for failures := 0; ; {
		select {
		case <-k.ctx.Done():
			return
		case <-k.keptScan:
		}
		err := k.reportKeptCopies(k.ctx)
		if err == nil {
			failures = 0
			continue
		}
		failures++
		k.Logger.Warn("cannot report all kept copies to the log; tried again later", "error", err)
		_ = sleep(k.ctx, retryDelay(failures))
		k.triggerKeptScan()
	}
}

// reportKeptCopies reports each kept copy that has no desired state: it exists.
func (k *keptScanner) reportKeptCopies(ctx context.Context) error {
	desired, mayReport := k.desiredSnapshots()
	if !mayReport {
		return nil // the next session's first update triggers another scan
	}
	found := map[fsm.SnapshotID]fsm.PoolID{}
	for _, pool := range k.Pools {
		items, err := pool.Inventory(ctx)
		if err != nil {
			return fmt.Errorf("list the snapshots of pool %s: %w", pool.ID(), err)
		}
		for _, item := range items {
			if item.Kind == executor.KindSnapshot && !desired[item.Snapshot] {
				found[item.Snapshot] = pool.ID()
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	for _, ob := range k.keptAmong(found) {
		_, err := k.reports.reportAndWait(ctx, nil, ob)
		if errors.Is(err, errSuperseded) {
			k.Logger.Warn("the log rejected the report of a kept copy", "snapshot", ob.GetSnapshotId(), "volume", ob.GetVolumeId())
		} else if err != nil {
			return err
		}
	}
	return nil
}

// desiredSnapshots are those with a desired state, and whether this session takes reports of
// others. It is read before the pools are: a copy that is removed meanwhile is not found there.
func (k *keptScanner) desiredSnapshots() (desired map[fsm.SnapshotID]bool, mayReport bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	desired = map[fsm.SnapshotID]bool{}
	for id, snap := range k.snapshots {
		desired[id] = snap.desired != nil
	}
	return desired, k.session.number != 0 && k.session.adopted && k.session.level >= fsm.Level2
}

// maxAttachmentsBack bounds how many attachments back the copies of one replica are searched for.
const maxAttachmentsBack = 4096

// keptAmong finds kept copies by their names, which follow from the volume, the host and the
// attachment whose data the copy has; at feature level 1 without the host.
func (k *keptScanner) keptAmong(found map[fsm.SnapshotID]fsm.PoolID) (all []*fsmpb.Observation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range sortedKeys(k.volumes) {
		v := k.volumes[id]
		r := v.recordCopy.Replica
		if r == nil {
			continue
		}
		for offset := uint64(0); offset < min(r.Attachment, maxAttachmentsBack); offset++ {
			attachment := r.Attachment - offset
			for _, copied := range k.keptNames(id, r, attachment) {
				if pool, there := found[copied]; there {
					all = append(all, keptObservationIn(pool, copied, id, attachment))
				}
			}
		}
	}
	return all
}

// maxEarlierCopies is how many copies of one attachment are searched for where the record does not say how many there are.
const maxEarlierCopies = 2

// keptNames are the ids that copies of an attachment may have.
func (k *keptScanner) keptNames(id fsm.VolumeID, r *records.ReplicaRecord, attachment uint64) []fsm.SnapshotID {
	names := []fsm.SnapshotID{keptSnapshotIDLevel1(id, attachment)}
	last := uint64(maxEarlierCopies)
	if attachment == r.Attachment {
		last = max(last, r.KeptCopies)
	}
	for earlier := range last + 1 {
		names = append(names, keptSnapshotID(id, k.Host.ID, attachment, earlier))
	}
	return names
}
