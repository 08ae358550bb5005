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
	if err := rw.drive(ctx, &replicaJob{replicaWorker: rw, v: v}); err != nil {
		return &replicaError{err}
	}
	return nil
}

// replicaJob is one work on a volume's replica.
type replicaJob struct {
	*replicaWorker
	v *volume

	// When the step was chosen.
	s    *volumeView
	at   fsm.Epoch
	want *replicaSpec
	have *observedReplica
}

func (j *replicaJob) choose(ctx context.Context) (step, error) {
	s, at, err := j.observer.view(ctx, j.v)
	if err == nil && s.have.replica != nil {
		err = j.recordDiskState(j.v, s.have.replica)
	}
	if err != nil || s.have.replica == nil || s.desired == nil || s.desired.Replication == nil || !s.actionable {
		return step{}, err
	}
	j.s, j.at = s, at
	j.want, j.have = j.replicaInputs(j.v, s)
	return nextReplicaStep(j.want, j.have), nil
}

// authorize: the wish is recorded as acted on (S14), in the session that it was read in (S2).
func (j *replicaJob) authorize(step) error { return j.acted.persist(j.at, j.s.incarnationID) }

func (j *replicaJob) perform(ctx context.Context, s step) error {
	return j.performReplicaStep(ctx, j.v, j.s, s.kind, j.want, j.have)
}

func (j *replicaJob) did(s step, began time.Time, err error) {
	var rej *fsm.Rejection
	switch {
	case err == nil:
		j.logger(j.v).Debug("step done", "step", s.kind, "took", time.Since(began))
	case errors.As(err, &rej):
		j.logger(j.v).Debug("step refused", "step", s.kind, "error", err)
	default:
		j.logger(j.v).Warn("step failed", "step", s.kind, "error", err)
	}
}

func (j *replicaJob) wrap(kind stepKind, err error) error { return wrapStep(j.v, kind, err) }

func (j *replicaJob) restless() error {
	return fmt.Errorf("the replica of volume %s does not stay as it is made", j.v.id)
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
