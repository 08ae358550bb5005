package executor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func (rw *replicaWorker) performReplicaStep(ctx context.Context, v *volume, s *volumeView, kind stepKind, w *replicaSpec, h *observedReplica) error {
	switch kind {
	case stepActivateBacking, stepDeactivateBacking:
		return rw.switchBacking(ctx, v, kind)
	case stepConfigure:
		return rw.configure(ctx, v, w, h)
	case stepAdjust:
		err := rw.Replicator.Adjust(ctx, v.id)
		v.replica.adjusted = err == nil
		return err
	case stepCreateMetadata:
		return rw.createMetadata(ctx, v, w)
	case stepRemakeMetadata:
		return rw.remakeMetadata(ctx, v, h)
	case stepProposeAttach:
		return rw.proposeAttach(ctx, v, w)
	case stepAttachDisk:
		return rw.attachDisk(ctx, v, h)
	case stepConnect, stepConnectDiscard:
		return rw.connect(ctx, v, kind == stepConnectDiscard)
	case stepSetPrimary:
		return rw.promote(ctx, v, nil, s.desired.Publication.Epoch)
	case stepResumeIO:
		return rw.suspended.failSuspendedIO(ctx, v, &h.ResourceStatus)
	case stepTearDownVictim:
		return rw.tearDownVictim(ctx, v, h)
	case stepKeepVictim:
		return rw.victims.keepVictim(ctx, v)
	case stepRemoveConfig:
		return rw.removeConfig(ctx, v)
	case stepForgetReplicaRecord:
		v.record.Replica = nil
		return rw.records.saveRecord(v, true)
	case stepNoteInSync:
		return rw.records.saveReplicaRecord(v, func(r *replicaRecord) { r.MayHaveWrites, r.CopyKept = false, false })
	case stepVerify:
		return rw.verifyReplica(ctx, v)
	}
	return rw.kernelStep(ctx, v, kind, w.size)
}

// kernelStep does what is one word to the kernel.
func (rw *replicaWorker) kernelStep(ctx context.Context, v *volume, kind stepKind, size int64) error {
	switch kind {
	case stepDetachDisk:
		v.replica.attachBackoff.noteTry(time.Now())
		return rw.suspended.detachDisk(ctx, v)
	case stepDisconnect:
		v.replica.discarding = false
		return rw.Replicator.Disconnect(ctx, v.id)
	case stepNewUUID:
		return rw.Replicator.NewUUID(ctx, v.id)
	case stepInvalidate:
		return rw.Replicator.Invalidate(ctx, v.id)
	case stepResize:
		return rw.Replicator.Resize(ctx, v.id, size)
	case stepDownResource:
		v.replica.adjusted, v.replica.discarding = false, false
		return rw.Replicator.Down(ctx, v.id)
	}
	return fmt.Errorf("there is no step %q", kind)
}

// connect begins to connect, with this attachment on record: one that was connected
// before has nothing to doubt.
func (rw *replicaWorker) connect(ctx context.Context, v *volume, discard bool) error {
	if r := v.record.Replica; r != nil && r.ConnectedAttachment != r.Attachment {
		if err := rw.records.saveReplicaRecord(v, func(r *replicaRecord) { r.ConnectedAttachment = r.Attachment }); err != nil {
			return err
		}
	}
	v.replica.connectBackoff.noteTry(time.Now())
	v.replica.discarding = discard
	return rw.Replicator.Connect(ctx, v.id, discard)
}

// switchBacking makes the image of the pool a block device, or ends that.
func (rw *replicaWorker) switchBacking(ctx context.Context, v *volume, kind stepKind) error {
	rb, err := rw.poolSet.replicaBackend(v)
	if err != nil {
		return err
	}
	if kind == stepDeactivateBacking {
		return rb.Backend.Deactivate(ctx, v.id)
	}
	if v.record.Replica == nil { // it is known to be replicated before anything is up
		if err := rw.records.saveReplicaRecord(v, func(*replicaRecord) {}); err != nil {
			return err
		}
	}
	_, err = rb.Backend.Activate(ctx, v.id, false)
	return err
}

// configure writes the resource's file, with a secret that is nowhere else.
func (rw *replicaWorker) configure(ctx context.Context, v *volume, w *replicaSpec, h *observedReplica) error {
	if rw.DeriveSecret == nil {
		return fsm.Reject(fsm.Precondition, "this host has no key for the replicas of its volumes")
	}
	secret, key, err := rw.secretOf(v.id, w.Peer)
	if err != nil {
		return fmt.Errorf("derive the secret of volume %s: %w", v.id, err)
	}
	r, before := rw.resourceConfig(v.id, w.DesiredReplica, h, secret), v.replica.config
	if before != nil && before.PeerAddress != r.PeerAddress && h.Connection == connConnecting {
		if err := rw.Replicator.Disconnect(ctx, v.id); err != nil { // the kernel waits for another host
			return err
		}
	}
	v.replica.config, v.replica.adjusted = nil, false
	if err := rw.Replicator.Configure(ctx, r); err != nil {
		return err
	}
	v.replica.config, v.replica.peerKey = &r, key
	return nil
}

// secretOf is what the peers know each other by, and the key that it was derived from. A
// replica without a peer has one that nobody knows.
func (rw *replicaWorker) secretOf(id fsm.VolumeID, peer *fsm.ReplicaPeer) (secret, key string, err error) {
	if peer != nil {
		secret, err = rw.DeriveSecret(peer.PublicKey, id)
		return secret, string(peer.PublicKey), err
	}
	random := make([]byte, 16)
	_, err = rand.Read(random)
	return hex.EncodeToString(random), "", err
}

// createMetadata belongs to the making of the replica. A copy of another volume's
// device has that one's metadata, which must not be taken for its own.
func (rw *replicaWorker) createMetadata(ctx context.Context, v *volume, w *replicaSpec) error {
	if wiper, ok := rw.Replicator.(MetadataWiper); ok && w.fromSource {
		if err := wiper.WipeMetadata(ctx, v.id); err != nil {
			return err
		}
	}
	if err := rw.Replicator.CreateMetadata(ctx, v.id); err != nil {
		return err
	}
	return rw.records.saveReplicaRecord(v, func(r *replicaRecord) { r.MetadataMade, r.Verified = true, time.Now() })
}

// proposeAttach has the next attachment recorded: from then on the replica is not up to
// date, until it was seen together with its peer (S5). Its number is on disk before.
func (rw *replicaWorker) proposeAttach(ctx context.Context, v *volume, w *replicaSpec) error {
	session, err := rw.actingSession()
	if err != nil {
		return err
	}
	err = rw.records.saveReplicaRecord(v, func(r *replicaRecord) {
		r.Attachment, r.Boot = max(r.Attachment, w.Attachment)+1, rw.Host.BootID
	})
	if err != nil {
		return err
	}
	number := v.record.Replica.Attachment
	outcome, err := rw.proposer.propose(ctx, nil, &fsmpb.Command{Body: &fsmpb.Command_AttachReplica{AttachReplica: &fsmpb.AttachReplica{
		VolumeId: string(v.id), NodeId: string(rw.Node), HostId: string(rw.Host.ID), BootId: rw.Host.BootID, Attach: number,
	}}})
	if err != nil {
		return err
	}
	rw.mu.Lock()
	defer rw.mu.Unlock()
	v.replica.committedAttachment = attachment{number, session}
	v.replica.generation = max(v.replica.generation, outcome.GetGeneration())
	return nil
}

// attachDisk uses the attachment that was recorded, once. A device below that cannot be
// read is not attached again: it would only fail again.
func (rw *replicaWorker) attachDisk(ctx context.Context, v *volume, h *observedReplica) error {
	rw.mu.Lock()
	committed := v.replica.committedAttachment
	v.replica.committedAttachment = attachment{}
	current := rw.session.number == committed.session
	rw.mu.Unlock()
	if !current {
		return errSessionChanged
	}
	v.replica.attachBackoff.noteTry(time.Now())
	if err := rw.probeBacking(ctx, h); err != nil {
		return err
	}
	if err := rw.records.saveReplicaRecord(v, func(r *replicaRecord) { r.GivenAttachment = r.Attachment }); err != nil {
		return err
	}
	rw.hitFaultPoint("attach-disk.recorded")
	err := errSessionChanged // it may have ended while the disk was read
	if rw.sessionHolds(committed.session) {
		err = rw.Replicator.Attach(ctx, v.id)
	}
	v.replica.adjusted = err == nil // it read the file just now
	if err != nil {
		return errors.Join(err, rw.records.saveReplicaRecord(v, func(r *replicaRecord) { r.GivenAttachment = 0 }))
	}
	return nil
}

func (rw *replicaWorker) probeBacking(ctx context.Context, h *observedReplica) error {
	if !h.InKernel {
		return nil
	}
	if _, err := rw.Mounter.Probe(ctx, h.backing.Path, h.backing.Size); err != nil {
		return fmt.Errorf("read the device below again: %w", err)
	}
	return nil
}

// promote asks for the right to be primary and uses it at once: in this session, after
// what was observed (S2). That it may write from here on is on disk first (S9).
func (rw *replicaWorker) promote(ctx context.Context, v *volume, c *call, epoch fsm.Epoch) error {
	session, err := rw.actingSession()
	if err != nil {
		return err
	}
	obs, _, err := rw.observer.observeReplica(ctx, v)
	if err != nil {
		return err
	}
	outcome, err := rw.proposer.propose(ctx, c, &fsmpb.Command{Body: &fsmpb.Command_SetPrimary{SetPrimary: &fsmpb.SetPrimary{
		VolumeId: string(v.id), NodeId: string(rw.Node), HostId: string(rw.Host.ID), BootId: rw.Host.BootID,
		Epoch: epochProto(epoch), Seen: obs.Proto(),
	}}})
	if err != nil {
		return err
	}
	rw.hitFaultPoint("set-primary.granted")
	err = rw.records.saveReplicaRecord(v, func(r *replicaRecord) {
		if r.MayHaveWrites, r.CopyKept = true, false; outcome.GetForce() {
			r.clearDiskFailure() // it goes on as it is, by a decision
		}
	})
	if err != nil {
		return err
	}
	if !rw.sessionHolds(session) {
		return errSessionChanged
	}
	obs.Generation = outcome.GetGeneration()
	rw.setPromotion(v, &obs)
	defer rw.setPromotion(v, nil)
	return rw.Replicator.SetPrimary(ctx, v.id, outcome.GetForce())
}

// promoting notes what the kernel's handler is to be answered with while it asks about
// a promotion of ours (S13).
func (rw *replicaWorker) setPromotion(v *volume, obs *fsm.ReplicaObservation) {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	v.replica.promotion = obs
	if obs != nil {
		v.replica.generation = max(v.replica.generation, obs.Generation)
	}
}

func (rw *replicaWorker) verifyReplica(ctx context.Context, v *volume) error {
	if err := rw.records.saveReplicaRecord(v, func(r *replicaRecord) { r.Verified = time.Now() }); err != nil {
		return err
	}
	return rw.Replicator.Verify(ctx, v.id)
}

// removeConfig removes the last that is known of the resource but its device below.
func (rw *replicaWorker) removeConfig(ctx context.Context, v *volume) error {
	v.replica.config, v.replica.committedAttachment = nil, attachment{}
	return rw.Replicator.RemoveConfig(ctx, v.id)
}

var errPoolCannotKeep = errors.New("the pool cannot keep what the replica has before it is given up")
