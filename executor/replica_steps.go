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

func (e *Executor) performReplica(ctx context.Context, v *volume, s *situation, kind stepKind, w *replicaWanted, h *replicaHave) error {
	switch kind {
	case stepOpenBelow, stepCloseBelow:
		return e.openBelow(ctx, v, kind)
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
	case stepAskAttach:
		return e.proposeAttach(ctx, v, w)
	case stepAttachDisk:
		return e.attachDisk(ctx, v, h)
	case stepConnect, stepDiscard:
		return e.connect(ctx, v, kind == stepDiscard)
	case stepSetPrimary:
		return e.promote(ctx, v, nil, s.wish.Publication.Epoch)
	case stepResumeIO:
		return e.failFrozen(ctx, v, &h.Mirror)
	case stepEndLoser:
		return e.endLoser(ctx, v, h)
	case stepKeepLoser:
		return e.keepLoser(ctx, v)
	case stepForgetReplica:
		return e.forgetReplica(ctx, v)
	case stepForgetRecord:
		v.journal.Replica = nil
		return e.save(v, true)
	case stepInSync:
		return e.saveReplica(v, func(r *replicaRecord) { r.Wrote, r.Kept = false, false })
	case stepVerify:
		return e.verifyReplica(ctx, v)
	}
	return e.kernelStep(ctx, v, kind, w.size)
}

// kernelStep does what is one word to the kernel.
func (e *Executor) kernelStep(ctx context.Context, v *volume, kind stepKind, size int64) error {
	switch kind {
	case stepDetachDisk:
		v.replica.attaching.tried(time.Now())
		return e.giveUpDisk(ctx, v)
	case stepDisconnect:
		v.replica.discarding = false
		return e.Replicator.Disconnect(ctx, v.id)
	case stepNewUUID:
		return e.Replicator.NewUUID(ctx, v.id)
	case stepInvalidate:
		return e.Replicator.Invalidate(ctx, v.id)
	case stepResize:
		return e.Replicator.Resize(ctx, v.id, size)
	case stepDownReplica:
		v.replica.adjusted, v.replica.discarding = false, false
		return e.Replicator.Down(ctx, v.id)
	}
	return fmt.Errorf("there is no step %q", kind)
}

// connect begins to connect, with this attachment on record: one that was connected
// before has nothing to doubt.
func (e *Executor) connect(ctx context.Context, v *volume, discard bool) error {
	if r := v.journal.Replica; r != nil && r.Linked != r.Attach {
		if err := e.saveReplica(v, func(r *replicaRecord) { r.Linked = r.Attach }); err != nil {
			return err
		}
	}
	v.replica.linking.tried(time.Now())
	v.replica.discarding = discard
	return e.Replicator.Connect(ctx, v.id, discard)
}

// openBelow makes the image of the pool a block device, or ends that.
func (e *Executor) openBelow(ctx context.Context, v *volume, kind stepKind) error {
	view, err := e.view(v)
	if err != nil {
		return err
	}
	if kind == stepCloseBelow {
		return view.Backend.Detach(ctx, v.id)
	}
	if v.journal.Replica == nil { // it is known to be replicated before anything is up
		if err := e.saveReplica(v, func(*replicaRecord) {}); err != nil {
			return err
		}
	}
	_, err = view.Backend.Attach(ctx, v.id, false)
	return err
}

// configure writes the resource's file, with a secret that is nowhere else.
func (e *Executor) configure(ctx context.Context, v *volume, w *replicaWanted, h *replicaHave) error {
	if e.Secret == nil {
		return fsm.Reject(fsm.Precondition, "this host has no key for the replicas of its volumes")
	}
	secret, key, err := e.secretOf(v.id, w.Peer)
	if err != nil {
		return fmt.Errorf("derive the secret of volume %s: %w", v.id, err)
	}
	r, before := e.resource(v.id, w.DesiredReplica, h, secret), v.replica.configured
	if before != nil && before.PeerAddress != r.PeerAddress && h.Connection == linkConnecting {
		if err := e.Replicator.Disconnect(ctx, v.id); err != nil { // the kernel waits for another host
			return err
		}
	}
	v.replica.configured, v.replica.adjusted = nil, false
	if err := e.Replicator.Configure(ctx, r); err != nil {
		return err
	}
	v.replica.configured, v.replica.peerKey = &r, key
	return nil
}

// secretOf is what the peers know each other by, and the key that it was derived from. A
// replica without a peer has one that nobody knows.
func (e *Executor) secretOf(id fsm.VolumeID, peer *fsm.ReplicaPeer) (secret, key string, err error) {
	if peer != nil {
		secret, err = e.Secret(peer.PublicKey, id)
		return secret, string(peer.PublicKey), err
	}
	random := make([]byte, 16)
	_, err = rand.Read(random)
	return hex.EncodeToString(random), "", err
}

// createMetadata belongs to the making of the replica. A copy of another volume's
// device has that one's metadata, which must not be taken for its own.
func (e *Executor) createMetadata(ctx context.Context, v *volume, w *replicaWanted) error {
	if wiper, ok := e.Replicator.(MetadataWiper); ok && w.copied {
		if err := wiper.WipeMetadata(ctx, v.id); err != nil {
			return err
		}
	}
	if err := e.Replicator.CreateMetadata(ctx, v.id); err != nil {
		return err
	}
	return e.saveReplica(v, func(r *replicaRecord) { r.Made, r.Verified = true, time.Now() })
}

// proposeAttach has the next attachment recorded: from then on the replica is not up to
// date, until it was seen together with its peer (S5). Its number is on disk before.
func (e *Executor) proposeAttach(ctx context.Context, v *volume, w *replicaWanted) error {
	session, err := e.mayAct()
	if err != nil {
		return err
	}
	err = e.saveReplica(v, func(r *replicaRecord) {
		r.Attach, r.Boot = max(r.Attach, w.Attachment)+1, e.Host.Boot
	})
	if err != nil {
		return err
	}
	number := v.journal.Replica.Attach
	outcome, err := e.propose(ctx, nil, &fsmpb.Command{Body: &fsmpb.Command_AttachReplica{AttachReplica: &fsmpb.AttachReplica{
		VolumeId: string(v.id), NodeId: string(e.Node), HostId: string(e.Host.ID), BootId: e.Host.Boot, Attach: number,
	}}})
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	v.replica.committed = attachment{number, session}
	v.replica.generation = max(v.replica.generation, outcome.GetGeneration())
	return nil
}

// attachDisk uses the attachment that was recorded, once. A device below that cannot be
// read is not attached again: it would only fail again.
func (e *Executor) attachDisk(ctx context.Context, v *volume, h *replicaHave) error {
	e.mu.Lock()
	committed := v.replica.committed
	v.replica.committed = attachment{}
	current := e.session.number == committed.session
	e.mu.Unlock()
	if !current {
		return errOtherSession
	}
	v.replica.attaching.tried(time.Now())
	if err := e.probeBelow(ctx, h); err != nil {
		return err
	}
	if err := e.saveReplica(v, func(r *replicaRecord) { r.Held = r.Attach }); err != nil {
		return err
	}
	e.hit("attach-disk.recorded")
	err := errOtherSession // it may have ended while the disk was read
	if e.inSession(committed.session) {
		err = e.Replicator.Attach(ctx, v.id)
	}
	v.replica.adjusted = err == nil // it read the file just now
	if err != nil {
		return errors.Join(err, e.saveReplica(v, func(r *replicaRecord) { r.Held = 0 }))
	}
	return nil
}

func (e *Executor) probeBelow(ctx context.Context, h *replicaHave) error {
	if !h.InKernel {
		return nil
	}
	if _, err := e.Mounter.Probe(ctx, h.below.Path, h.below.Size); err != nil {
		return fmt.Errorf("read the device below again: %w", err)
	}
	return nil
}

// promote asks for the right to be primary and uses it at once: in this session, after
// what was observed (S2). That it may write from here on is on disk first (S9).
func (e *Executor) promote(ctx context.Context, v *volume, c *call, epoch fsm.Epoch) error {
	session, err := e.mayAct()
	if err != nil {
		return err
	}
	seen, _, err := e.seenNow(ctx, v)
	if err != nil {
		return err
	}
	outcome, err := e.propose(ctx, c, &fsmpb.Command{Body: &fsmpb.Command_SetPrimary{SetPrimary: &fsmpb.SetPrimary{
		VolumeId: string(v.id), NodeId: string(e.Node), HostId: string(e.Host.ID), BootId: e.Host.Boot,
		Epoch: epochProto(epoch), Seen: seen.Proto(),
	}}})
	if err != nil {
		return err
	}
	e.hit("set-primary.granted")
	err = e.saveReplica(v, func(r *replicaRecord) {
		if r.Wrote, r.Kept = true, false; outcome.GetForce() {
			r.acceptDisk() // it goes on as it is, by a decision
		}
	})
	if err != nil {
		return err
	}
	if !e.inSession(session) {
		return errOtherSession
	}
	seen.Generation = outcome.GetGeneration()
	e.promoting(v, &seen)
	defer e.promoting(v, nil)
	return e.Replicator.SetPrimary(ctx, v.id, outcome.GetForce())
}

// promoting notes what the kernel's handler is to be answered with while it asks about
// a promotion of ours (S13).
func (e *Executor) promoting(v *volume, seen *fsm.ReplicaObservation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v.replica.promoting = seen
	if seen != nil {
		v.replica.generation = max(v.replica.generation, seen.Generation)
	}
}

func (e *Executor) verifyReplica(ctx context.Context, v *volume) error {
	if err := e.saveReplica(v, func(r *replicaRecord) { r.Verified = time.Now() }); err != nil {
		return err
	}
	return e.Replicator.Verify(ctx, v.id)
}

// forgetReplica removes the last that is known of the resource but its device below.
func (e *Executor) forgetReplica(ctx context.Context, v *volume) error {
	v.replica.configured, v.replica.committed = nil, attachment{}
	return e.Replicator.Forget(ctx, v.id)
}

var errNoKeeping = errors.New("the pool cannot keep what the replica has before it is given up")
