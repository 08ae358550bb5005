package agent

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// observeReplica observes the replica as it is reported. The known generation is read before the
// kernel is: an observation is never older than the generation that it is reported under (S7).
func (o *observer) observeReplica(ctx context.Context, v *volume) (fsm.ReplicaObservation, *plan.ObservedReplica, error) {
	rb, err := o.poolSet.replicaBackend(v)
	if err != nil {
		return fsm.ReplicaObservation{}, nil, err
	}
	o.mu.Lock()
	generation, resumed := v.replica.generation, v.replica.resumeCount
	o.mu.Unlock()
	have, err := rb.observe(ctx)
	if err != nil {
		return fsm.ReplicaObservation{}, nil, err
	}
	return o.replicaObservation(v, have, generation, resumed), have, nil
}

func (t *table) generationOf(v *volume) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return v.replica.generation
}

// replicaObservation is the observation under a generation. A connection to the peer is noted here,
// before it can be reported: it makes verdicts of this generation stale (S7). While this process
// resumes I/O by such a verdict, observations carry no generation, because the peer may be lost
// again and this host may have continued without it.
func (o *observer) replicaObservation(v *volume, h *plan.ObservedReplica, generation, resumed uint64) fsm.ReplicaObservation {
	o.mu.Lock()
	defer o.mu.Unlock()
	obs := fsm.ReplicaObservation{
		Boot: o.Host.BootID, Primary: h.Primary, Disk: h.Disk, Connection: h.Connection, PeerDisk: h.PeerDisk,
		UUID: h.UUID, Suspended: h.Suspended, Generation: generation, BackingCapacity: h.BackingCapacity, Unconfigured: !h.InKernel,
	}
	if r := v.recordCopy.Replica; r != nil && r.Boot == o.Host.BootID {
		obs.Attachment = r.Attachment
	}
	obs.PeerBehind, obs.FailedAttachment = o.peerBehind(v.recordCopy.Replica, h), o.failedAttachment(v.recordCopy.Replica)
	obs.SyncPercent, obs.OutOfSync = v.replica.syncProgress(h)
	if obs.Connected() {
		v.replica.connectedGeneration = max(v.replica.connectedGeneration, generation)
	}
	if v.replica.endingSuspension || v.replica.resumeCount != resumed {
		obs.Generation = 0 // the state machine takes no conclusion from generation 0
	}
	return obs
}

// syncProgress is how far a resynchronisation or a verification is, in tens of percent, and how much is out of sync. While
// that is being copied it is how much it was at first: what is left changes all the time, and would be reported as often.
func (r *replicaState) syncProgress(h *plan.ObservedReplica) (percent uint32, outOfSync int64) {
	if h.SyncPercent >= 0 {
		percent = uint32(h.SyncPercent) / 10 * 10
	}
	switch h.Connection {
	case fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE, fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET:
		r.toSync = max(r.toSync, h.OutOfSync)
		return percent, r.toSync
	case fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED:
		if h.SyncPercent < 0 {
			outOfSync = h.OutOfSync
		}
	}
	r.toSync = 0
	return percent, outOfSync
}

// replicaInputs completes the observation with what the record and this process know.
func (rw *replicaWorker) replicaInputs(v *volume, view *plan.VolumeView) (*plan.ReplicaSpec, *plan.ObservedReplica) {
	d, h := view.Desired, view.Have.Replica
	want := &plan.ReplicaSpec{
		DesiredReplica: rw.desiredReplica(v, view), Volume: v.id, Goal: d.Goal, Size: d.Size,
		Published: d.Publication != nil, HasTeardown: d.Teardown != nil, FromSource: !d.Source.IsZero(),
		Revoked: plan.IsRevoked(d, v.record.Staging),
		Leaving: d.Goal == fsm.GoalKeep && d.ReplicaState == fsm.ReplicaLeaving,
	}
	h.Mounted = view.Have.Staged || len(view.Have.BoundTargets) > 0 || len(view.Have.ForeignMounts) > 0
	if r := v.record.Replica; r != nil {
		h.Recorded, h.MetadataMade, h.MayHaveWrites, h.CopyKept = true, r.MetadataMade, r.MayHaveWrites, r.CopyKept
		h.AttachmentRecorded = h.DiskAttached() && r.Attachment != 0 && r.Boot == rw.Host.BootID
		h.ConnectedInAttachment = h.AttachmentRecorded && r.ConnectedAttachment == r.Attachment
		h.DiskFailed, h.PeerWasUpToDate = r.FailedAttachment != 0 || d.Replication.DiskFailed > r.RemadeAttachment || rw.failedSinceForced(v, d.Replication), r.PeerWasUpToDate
		h.FailureKnown = !rw.atLevel2() || failureKnown(r, d.Replication)
		h.PlainBytes, h.Reverting, h.ContentReverted, h.RevertedTo = r.PlainBytes, r.Reverting, r.ContentReverted, r.RevertedTo
		h.VerifyDue = rw.VerifyInterval > 0 && time.Since(r.Verified) >= rw.VerifyInterval
	}
	h.AwaitsImport = d.ImportDRBD != nil && (v.record.ImportDRBD == nil || !v.record.ImportDRBD.Replaced)
	now := time.Now()
	rw.mu.Lock()
	h.PeerBehind = rw.peerBehind(v.record.Replica, h)
	h.DetachedHere = v.record.Replica != nil && v.replica.detachedAttachment != 0 && v.replica.detachedAttachment == v.record.Replica.Attachment
	h.AttachmentForgotten = h.AttachmentRecorded && d.Replication.Attachment < v.record.Replica.Attachment &&
		v.replica.loggedAttachment != attachment{v.record.Replica.Attachment, rw.session.number}
	h.AttachmentCommitted = v.replica.committedAttachment.number != 0 && v.replica.committedAttachment.session == rw.session.number
	rw.mu.Unlock()
	h.AttachDue, h.ConnectDue = v.replica.attachBackoff.ready(now), v.replica.connectBackoff.ready(now)
	h.KeepAnswered = v.replica.keepAnswered == d && !v.replica.keepAnsweredBackoff.ready(now)
	h.Adjusted, h.Discarding = v.replica.adjusted, v.replica.discarding
	if p := d.Replication.Peer; p != nil {
		h.LowerHostID = rw.Host.ID < p.Host
		h.ConfigCurrent = h.HasConfig && v.replica.config != nil && v.replica.peerKey == string(p.PublicKey) && *v.replica.config == rw.resourceConfig(v.id, d.Replication, h, v.replica.config.Secret)
	}
	rw.scheduleReplicaRetry(v, h, now)
	return want, h
}

// desiredReplica is the desired state, with what the log has told of the replica since: a verdict overtakes it where the
// session is slow. The replica is not attached below those who wrote, and connects to nothing before the log says how (S9).
//
// It asks for the update that delivered this volume: that the session is further says nothing, as an update covers only what
// it lists.
func (t *table) desiredReplica(v *volume, view *plan.VolumeView) *fsm.DesiredReplica {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := view.Desired.Replication
	if d.Outdated || view.DesiredAt.Compare(v.replica.outdatedAt) >= 0 {
		return d
	}
	overtaken := *d
	overtaken.Outdated, overtaken.Primary, overtaken.Connect, overtaken.Force = true, false, false, false
	return &overtaken
}

// isOutdated tells whether the log calls this replica outdated, by desired state or by a verdict since. The caller holds
// table.mu.
func (v *volume) isOutdated() bool {
	d := v.desired
	return d != nil && d.Replication != nil && (d.Replication.Outdated || v.desiredAt.Compare(v.replica.outdatedAt) < 0)
}

// scheduleReplicaRetry queues the volume for when a backoff ends, and resets the backoffs of
// what is well.
func (rw *replicaWorker) scheduleReplicaRetry(v *volume, h *plan.ObservedReplica, now time.Time) {
	if h.BothUpToDate() && h.Connection == plan.ConnConnected {
		v.replica.attachBackoff, v.replica.connectBackoff = retryBackoff{}, retryBackoff{}
	}
	if !h.AttachDue && !h.DiskAttached() {
		rw.volumeQueue.addAfter(v.id, v.replica.attachBackoff.notBefore.Sub(now))
	}
	if h.KeepAnswered {
		rw.volumeQueue.addAfter(v.id, v.replica.keepAnsweredBackoff.notBefore.Sub(now))
	}
	if !h.ConnectDue && (h.Connection <= plan.ConnConnecting || h.PeerStateLost()) {
		rw.volumeQueue.addAfter(v.id, v.replica.connectBackoff.notBefore.Sub(now))
	}
}

// resourceStatus observes the resource alone, without a lock.
func (o *observer) resourceStatus(ctx context.Context, v *volume) (executor.ResourceStatus, error) {
	rb, err := o.poolSet.replicaBackend(v)
	if err != nil {
		return executor.ResourceStatus{}, err
	}
	have, err := rb.observe(ctx)
	if err != nil {
		return executor.ResourceStatus{}, err
	}
	return have.ResourceStatus, nil
}
