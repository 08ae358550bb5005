package executor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// replicaError is why a replica does not get on. Replicas wait for each other, for a
// disk or for an operator: that is no failure of whatever else is done to the volume.
type replicaError struct{ error }

func (r *replicaError) Unwrap() error { return r.error }

// isReplicaWait tells whether the failure is a replica's only, of a volume that is made.
func isReplicaWait(w *fsm.DesiredVolume, err error) bool {
	var r *replicaError
	return w.Goal != fsm.GoalCreate && errors.As(err, &r)
}

// driveReplica does step after step until nextReplicaStep has none.
func (rw *replicaWorker) driveReplica(ctx context.Context, v *volume) error {
	if err := rw.stepReplica(ctx, v); err != nil {
		return &replicaError{err}
	}
	return nil
}

func (rw *replicaWorker) stepReplica(ctx context.Context, v *volume) error {
	for range maxSteps {
		s, at, err := rw.observer.view(ctx, v)
		if err == nil && s.have.replica != nil {
			err = rw.recordDiskState(v, s.have.replica)
		}
		if err != nil || s.have.replica == nil || s.desired == nil || s.desired.Replication == nil || !s.actionable {
			return err
		}
		want, have := rw.replicaInputs(v, s)
		next := nextReplicaStep(want, have)
		switch next.kind {
		case stepNone:
			return nil
		case stepRefuse:
			return next.refusal
		}
		if err := rw.doReplica(ctx, v, s, next.kind, want, have, at); err != nil {
			return wrapStep(v, next.kind, err)
		}
	}
	return fmt.Errorf("the replica of volume %s does not stay as it is made", v.id)
}

// replicaInputs completes what was observed with what the record and this process know.
func (rw *replicaWorker) replicaInputs(v *volume, s *volumeView) (*replicaSpec, *observedReplica) {
	w, h := s.desired, s.have.replica
	want := &replicaSpec{
		DesiredReplica: w.Replication, volume: v.id, goal: w.Goal, size: w.Size,
		published: w.Publication != nil, hasTeardown: w.Teardown != nil, fromSource: !w.Source.IsZero(),
		leaving: w.Goal == fsm.GoalKeep && w.ReplicaState == fsm.ReplicaLeaving,
	}
	h.mounted = s.have.staged || len(s.have.boundTargets) > 0 || len(s.have.foreignMounts) > 0
	if r := v.record.Replica; r != nil {
		h.recorded, h.metadataMade, h.mayHaveWrites, h.copyKept = true, r.MetadataMade, r.MayHaveWrites, r.CopyKept
		h.attachmentRecorded = h.diskAttached() && r.Attachment != 0 && r.Boot == rw.Host.BootID
		h.connectedInAttachment = h.attachmentRecorded && r.ConnectedAttachment == r.Attachment
		h.diskFailed, h.peerWasUpToDate = r.FailedAttachment != 0 || w.Replication.DiskFailed > r.RemadeAttachment, r.PeerWasUpToDate
		h.verifyDue = rw.VerifyInterval > 0 && time.Since(r.Verified) >= rw.VerifyInterval
	}
	now := time.Now()
	rw.mu.Lock()
	h.attachmentCommitted = v.replica.committedAttachment.number != 0 && v.replica.committedAttachment.session == rw.session.number
	rw.mu.Unlock()
	h.attachDue, h.connectDue = v.replica.attachBackoff.ready(now), v.replica.connectBackoff.ready(now)
	h.adjusted, h.discarding = v.replica.adjusted, v.replica.discarding
	if p := w.Replication.Peer; p != nil {
		h.lowerHostID = rw.Host.ID < p.Host
		h.configCurrent = h.HasConfig && v.replica.config != nil && v.replica.peerKey == string(p.PublicKey) && *v.replica.config == rw.resourceConfig(v.id, w.Replication, h, v.replica.config.Secret)
	}
	rw.scheduleReplicaRetry(v, h, now)
	return want, h
}

// scheduleReplicaRetry looks again when something may be tried again, and forgets failures of
// what is well.
func (rw *replicaWorker) scheduleReplicaRetry(v *volume, h *observedReplica, now time.Time) {
	if h.bothUpToDate() && h.Connection == connConnected {
		v.replica.attachBackoff, v.replica.connectBackoff = retryBackoff{}, retryBackoff{}
	}
	if !h.attachDue && !h.diskAttached() {
		rw.volumeQueue.addAfter(v.id, v.replica.attachBackoff.notBefore.Sub(now))
	}
	if !h.connectDue && h.Connection <= connConnecting {
		rw.volumeQueue.addAfter(v.id, v.replica.connectBackoff.notBefore.Sub(now))
	}
}

// resourceConfig is the volume's, as its file is to say it. A replica without a peer is never
// told to connect, but its file must name one.
func (rw *replicaWorker) resourceConfig(id fsm.VolumeID, w *fsm.DesiredReplica, h *observedReplica, secret string) ResourceConfig {
	peer := w.Peer
	if peer == nil {
		peer = placeholderPeer(w.Address)
	}
	return ResourceConfig{
		Volume: id, Protocol: w.Protocol, Minor: w.Minor, Port: w.Port, BackingPath: backingPath(h.backing),
		Node: rw.Node, Address: w.Address, PeerNode: peer.Node, PeerAddress: peer.Address, Secret: secret,
	}
}

// placeholderPeer stands for the peer of a replica that has none, at an address that is kept free
// for documentation, of the same family as the host's own.
func placeholderPeer(own string) *fsm.ReplicaPeer {
	if a, err := netip.ParseAddr(own); err == nil && a.Is6() {
		return &fsm.ReplicaPeer{Node: "nobody", Address: "2001:db8::1"}
	}
	return &fsm.ReplicaPeer{Node: "nobody", Address: "192.0.2.1"}
}

// doReplica does one step between two fault points, after the wish is recorded as acted
// on (S14), in the session that it was read in (S2).
func (rw *replicaWorker) doReplica(ctx context.Context, v *volume, s *volumeView, kind stepKind, w *replicaSpec, h *observedReplica, at fsm.Epoch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := rw.acted.persist(at, s.incarnationID); err != nil {
		return err
	}
	began := time.Now()
	rw.hitFaultPoint(string(kind) + ".before")
	err := rw.performReplicaStep(ctx, v, s, kind, w, h)
	rw.hitFaultPoint(string(kind) + ".after")
	rw.metrics.observeStep(kind, began, err)
	var rej *fsm.Rejection
	switch {
	case err == nil:
		rw.logger(v).Debug("step done", "step", kind, "took", time.Since(began))
	case errors.As(err, &rej):
		rw.logger(v).Debug("step refused", "step", kind, "error", err)
	default:
		rw.logger(v).Warn("step failed", "step", kind, "error", err)
	}
	return err
}
