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

func (e *Executor) performReplicaStep(ctx context.Context, v *volume, s *volumeView, kind stepKind, w *replicaSpec, h *observedReplica) error {
	switch kind {
	case stepActivateBacking, stepDeactivateBacking:
		return e.switchBacking(ctx, v, kind)
	case stepConfigure:
		return e.configure(ctx, v, w, h)
	case stepAdjust:
		err := e.Replicator.Adjust(ctx, v.id)
		v.replica.adjusted = err == nil
		return err
	case stepCreateMetadata:
		return e.createMetadata(ctx, v, w)
	case stepRemakeMetadata:
		return e.remakeMetadata(ctx, v, h)
	case stepProposeAttach:
		return e.proposeAttach(ctx, v, w)
	case stepAttachDisk:
		return e.attachDisk(ctx, v, h)
	case stepConnect, stepConnectDiscard:
		return e.connect(ctx, v, kind == stepConnectDiscard)
	case stepSetPrimary:
		return e.promote(ctx, v, nil, s.desired.Publication.Epoch)
	case stepResumeIO:
		return e.failSuspendedIO(ctx, v, &h.ResourceStatus)
	case stepTearDownVictim:
		return e.tearDownVictim(ctx, v, h)
	case stepKeepVictim:
		return e.keepVictim(ctx, v)
	case stepRemoveConfig:
		return e.removeConfig(ctx, v)
	case stepForgetReplicaRecord:
		v.record.Replica = nil
		return e.saveRecord(v, true)
	case stepNoteInSync:
		return e.saveReplicaRecord(v, func(r *replicaRecord) { r.MayHaveWrites, r.CopyKept = false, false })
	case stepVerify:
		return e.verifyReplica(ctx, v)
	}
	return e.kernelStep(ctx, v, kind, w.size)
}

// kernelStep does what is one word to the kernel.
func (e *Executor) kernelStep(ctx context.Context, v *volume, kind stepKind, size int64) error {
	switch kind {
	case stepDetachDisk:
		v.replica.attachBackoff.noteTry(time.Now())
		return e.detachDisk(ctx, v)
	case stepDisconnect:
		v.replica.discarding = false
		return e.Replicator.Disconnect(ctx, v.id)
	case stepNewUUID:
		return e.Replicator.NewUUID(ctx, v.id)
	case stepInvalidate:
		return e.Replicator.Invalidate(ctx, v.id)
	case stepResize:
		return e.Replicator.Resize(ctx, v.id, size)
	case stepDownResource:
		v.replica.adjusted, v.replica.discarding = false, false
		return e.Replicator.Down(ctx, v.id)
	}
	return fmt.Errorf("there is no step %q", kind)
}

// connect begins to connect, with this attachment on record: one that was connected
// before has nothing to doubt.
func (e *Executor) connect(ctx context.Context, v *volume, discard bool) error {
	if r := v.record.Replica; r != nil && r.ConnectedAttachment != r.Attachment {
		if err := e.saveReplicaRecord(v, func(r *replicaRecord) { r.ConnectedAttachment = r.Attachment }); err != nil {
			return err
		}
	}
	v.replica.connectBackoff.noteTry(time.Now())
	v.replica.discarding = discard
	return e.Replicator.Connect(ctx, v.id, discard)
}

// switchBacking makes the image of the pool a block device, or ends that.
func (e *Executor) switchBacking(ctx context.Context, v *volume, kind stepKind) error {
	rb, err := e.replicaBackend(v)
	if err != nil {
		return err
	}
	if kind == stepDeactivateBacking {
		return rb.Backend.Deactivate(ctx, v.id)
	}
	if v.record.Replica == nil { // it is known to be replicated before anything is up
		if err := e.saveReplicaRecord(v, func(*replicaRecord) {}); err != nil {
			return err
		}
	}
	_, err = rb.Backend.Activate(ctx, v.id, false)
	return err
}

// configure writes the resource's file, with a secret that is nowhere else.
func (e *Executor) configure(ctx context.Context, v *volume, w *replicaSpec, h *observedReplica) error {
	if e.DeriveSecret == nil {
		return fsm.Reject(fsm.Precondition, "this host has no key for the replicas of its volumes")
	}
	secret, key, err := e.secretOf(v.id, w.Peer)
	if err != nil {
		return fmt.Errorf("derive the secret of volume %s: %w", v.id, err)
	}
	r, before := e.resourceConfig(v.id, w.DesiredReplica, h, secret), v.replica.config
	if before != nil && before.PeerAddress != r.PeerAddress && h.Connection == connConnecting {
		if err := e.Replicator.Disconnect(ctx, v.id); err != nil { // the kernel waits for another host
			return err
		}
	}
	v.replica.config, v.replica.adjusted = nil, false
	if err := e.Replicator.Configure(ctx, r); err != nil {
		return err
	}
	v.replica.config, v.replica.peerKey = &r, key
	return nil
}

// secretOf is what the peers know each other by, and the key that it was derived from. A
// replica without a peer has one that nobody knows.
func (e *Executor) secretOf(id fsm.VolumeID, peer *fsm.ReplicaPeer) (secret, key string, err error) {
	if peer != nil {
		secret, err = e.DeriveSecret(peer.PublicKey, id)
		return secret, string(peer.PublicKey), err
	}
	random := make([]byte, 16)
	_, err = rand.Read(random)
	return hex.EncodeToString(random), "", err
}

// createMetadata belongs to the making of the replica. A copy of another volume's
// device has that one's metadata, which must not be taken for its own.
func (e *Executor) createMetadata(ctx context.Context, v *volume, w *replicaSpec) error {
	if wiper, ok := e.Replicator.(MetadataWiper); ok && w.fromSource {
		if err := wiper.WipeMetadata(ctx, v.id); err != nil {
			return err
		}
	}
	if err := e.Replicator.CreateMetadata(ctx, v.id); err != nil {
		return err
	}
	return e.saveReplicaRecord(v, func(r *replicaRecord) { r.MetadataMade, r.Verified = true, time.Now() })
}

// proposeAttach has the next attachment recorded: from then on the replica is not up to
// date, until it was seen together with its peer (S5). Its number is on disk before.
func (e *Executor) proposeAttach(ctx context.Context, v *volume, w *replicaSpec) error {
	session, err := e.actingSession()
	if err != nil {
		return err
	}
	err = e.saveReplicaRecord(v, func(r *replicaRecord) {
		r.Attachment, r.Boot = max(r.Attachment, w.Attachment)+1, e.Host.BootID
	})
	if err != nil {
		return err
	}
	number := v.record.Replica.Attachment
	outcome, err := e.propose(ctx, nil, &fsmpb.Command{Body: &fsmpb.Command_AttachReplica{AttachReplica: &fsmpb.AttachReplica{
		VolumeId: string(v.id), NodeId: string(e.Node), HostId: string(e.Host.ID), BootId: e.Host.BootID, Attach: number,
	}}})
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	v.replica.committedAttachment = attachment{number, session}
	v.replica.generation = max(v.replica.generation, outcome.GetGeneration())
	return nil
}

// attachDisk uses the attachment that was recorded, once. A device below that cannot be
// read is not attached again: it would only fail again.
func (e *Executor) attachDisk(ctx context.Context, v *volume, h *observedReplica) error {
	e.mu.Lock()
	committed := v.replica.committedAttachment
	v.replica.committedAttachment = attachment{}
	current := e.session.number == committed.session
	e.mu.Unlock()
	if !current {
		return errSessionChanged
	}
	v.replica.attachBackoff.noteTry(time.Now())
	if err := e.probeBacking(ctx, h); err != nil {
		return err
	}
	if err := e.saveReplicaRecord(v, func(r *replicaRecord) { r.GivenAttachment = r.Attachment }); err != nil {
		return err
	}
	e.hitFaultPoint("attach-disk.recorded")
	err := errSessionChanged // it may have ended while the disk was read
	if e.sessionHolds(committed.session) {
		err = e.Replicator.Attach(ctx, v.id)
	}
	v.replica.adjusted = err == nil // it read the file just now
	if err != nil {
		return errors.Join(err, e.saveReplicaRecord(v, func(r *replicaRecord) { r.GivenAttachment = 0 }))
	}
	return nil
}

func (e *Executor) probeBacking(ctx context.Context, h *observedReplica) error {
	if !h.InKernel {
		return nil
	}
	if _, err := e.Mounter.Probe(ctx, h.backing.Path, h.backing.Size); err != nil {
		return fmt.Errorf("read the device below again: %w", err)
	}
	return nil
}

// promote asks for the right to be primary and uses it at once: in this session, after
// what was observed (S2). That it may write from here on is on disk first (S9).
func (e *Executor) promote(ctx context.Context, v *volume, c *call, epoch fsm.Epoch) error {
	session, err := e.actingSession()
	if err != nil {
		return err
	}
	obs, _, err := e.observeReplica(ctx, v)
	if err != nil {
		return err
	}
	outcome, err := e.propose(ctx, c, &fsmpb.Command{Body: &fsmpb.Command_SetPrimary{SetPrimary: &fsmpb.SetPrimary{
		VolumeId: string(v.id), NodeId: string(e.Node), HostId: string(e.Host.ID), BootId: e.Host.BootID,
		Epoch: epochProto(epoch), Seen: obs.Proto(),
	}}})
	if err != nil {
		return err
	}
	e.hitFaultPoint("set-primary.granted")
	err = e.saveReplicaRecord(v, func(r *replicaRecord) {
		if r.MayHaveWrites, r.CopyKept = true, false; outcome.GetForce() {
			r.clearDiskFailure() // it goes on as it is, by a decision
		}
	})
	if err != nil {
		return err
	}
	if !e.sessionHolds(session) {
		return errSessionChanged
	}
	obs.Generation = outcome.GetGeneration()
	e.setPromotion(v, &obs)
	defer e.setPromotion(v, nil)
	return e.Replicator.SetPrimary(ctx, v.id, outcome.GetForce())
}

// promoting notes what the kernel's handler is to be answered with while it asks about
// a promotion of ours (S13).
func (e *Executor) setPromotion(v *volume, obs *fsm.ReplicaObservation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v.replica.promotion = obs
	if obs != nil {
		v.replica.generation = max(v.replica.generation, obs.Generation)
	}
}

func (e *Executor) verifyReplica(ctx context.Context, v *volume) error {
	if err := e.saveReplicaRecord(v, func(r *replicaRecord) { r.Verified = time.Now() }); err != nil {
		return err
	}
	return e.Replicator.Verify(ctx, v.id)
}

// removeConfig removes the last that is known of the resource but its device below.
func (e *Executor) removeConfig(ctx context.Context, v *volume) error {
	v.replica.config, v.replica.committedAttachment = nil, attachment{}
	return e.Replicator.RemoveConfig(ctx, v.id)
}

var errPoolCannotKeep = errors.New("the pool cannot keep what the replica has before it is given up")
