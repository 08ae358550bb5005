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

// isWaiting tells whether the failure is a replica's only, of a volume that is made.
func isWaiting(w *fsm.DesiredVolume, err error) bool {
	var r *replicaError
	return w.Goal != fsm.GoalCreate && errors.As(err, &r)
}

// driveReplica does step after step until nextReplica has none.
func (e *Executor) driveReplica(ctx context.Context, v *volume) error {
	if err := e.stepReplica(ctx, v); err != nil {
		return &replicaError{err}
	}
	return nil
}

func (e *Executor) stepReplica(ctx context.Context, v *volume) error {
	for range stepLimit {
		s, at, err := e.situation(ctx, v)
		if err == nil && s.have.replica != nil {
			err = e.noteDisk(v, s.have.replica)
		}
		if err != nil || s.have.replica == nil || s.wish == nil || s.wish.Replication == nil || !s.fresh {
			return err
		}
		want, have := e.replicaSituation(v, s)
		next := nextReplica(want, have)
		switch next.kind {
		case stepNone:
			return nil
		case stepRefuse:
			return next.refusal
		}
		if err := e.doReplica(ctx, v, s, next.kind, want, have, at); err != nil {
			return wrap(v, next.kind, err)
		}
	}
	return fmt.Errorf("the replica of volume %s does not stay as it is made", v.id)
}

// replicaSituation completes what was observed with what the record and this process know.
func (e *Executor) replicaSituation(v *volume, s *situation) (*replicaWanted, *replicaHave) {
	w, h := s.wish, s.have.replica
	want := &replicaWanted{
		DesiredReplica: w.Replication, volume: v.id, verb: w.Goal, size: w.Size,
		published: w.Publication != nil, owes: w.Teardown != nil, copied: !w.Source.IsZero(),
		leaving: w.Goal == fsm.GoalKeep && w.ReplicaState == fsm.ReplicaLeaving,
	}
	h.busy = s.have.staged || len(s.have.bound) > 0 || len(s.have.strange) > 0
	if r := v.journal.Replica; r != nil {
		h.recorded, h.made, h.wrote, h.kept = true, r.Made, r.Wrote, r.Kept
		h.own = h.attached() && r.Attach != 0 && r.Boot == e.Host.Boot
		h.linked = h.own && r.Linked == r.Attach
		h.failed, h.peerWhole = r.DiskFailed != 0 || w.Replication.DiskFailed > r.Remade, r.PeerWhole
		h.verifyDue = e.VerifyEvery > 0 && time.Since(r.Verified) >= e.VerifyEvery
	}
	now := time.Now()
	e.mu.Lock()
	h.mayAttach = v.replica.committed.number != 0 && v.replica.committed.session == e.session.number
	e.mu.Unlock()
	h.mayTry, h.mayLink = v.replica.attaching.ready(now), v.replica.linking.ready(now)
	h.adjusted, h.discarding = v.replica.adjusted, v.replica.discarding
	if p := w.Replication.Peer; p != nil {
		h.first = e.Host.ID < p.Host
		h.configured = h.Configured && v.replica.configured != nil && v.replica.peerKey == string(p.PublicKey) && *v.replica.configured == e.resource(v.id, w.Replication, h, v.replica.configured.Secret)
	}
	e.paceReplica(v, h, now)
	return want, h
}

// paceReplica looks again when something may be tried again, and forgets failures of
// what is well.
func (e *Executor) paceReplica(v *volume, h *replicaHave, now time.Time) {
	if h.whole() && h.Connection == linkConnected {
		v.replica.attaching, v.replica.linking = pace{}, pace{}
	}
	if !h.mayTry && !h.attached() {
		e.queue.addAfter(v.id, v.replica.attaching.after.Sub(now))
	}
	if !h.mayLink && h.Connection <= linkConnecting {
		e.queue.addAfter(v.id, v.replica.linking.after.Sub(now))
	}
}

// resource is the volume's, as its file is to say it. A replica without a peer is never
// told to connect, but its file must name one.
func (e *Executor) resource(id fsm.VolumeID, w *fsm.DesiredReplica, h *replicaHave, secret string) Resource {
	peer := w.Peer
	if peer == nil {
		peer = nobody(w.Address)
	}
	return Resource{
		Volume: id, Protocol: w.Protocol, Minor: w.Minor, Port: w.Port, Backing: backingPath(h.below),
		Node: e.Node, Address: w.Address, PeerNode: peer.Node, PeerAddress: peer.Address, Secret: secret,
	}
}

// nobody stands for the peer of a replica that has none, at an address that is kept free
// for documentation, of the same family as the host's own.
func nobody(own string) *fsm.ReplicaPeer {
	if a, err := netip.ParseAddr(own); err == nil && a.Is6() {
		return &fsm.ReplicaPeer{Node: "nobody", Address: "2001:db8::1"}
	}
	return &fsm.ReplicaPeer{Node: "nobody", Address: "192.0.2.1"}
}

// doReplica does one step between two fault points, after the wish is recorded as acted
// on (S14), in the session that it was read in (S2).
func (e *Executor) doReplica(ctx context.Context, v *volume, s *situation, kind stepKind, w *replicaWanted, h *replicaHave, at fsm.Epoch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.seen.reach(at, s.incarnationID); err != nil {
		return err
	}
	began := time.Now()
	e.hit(string(kind) + ".before")
	err := e.performReplica(ctx, v, s, kind, w, h)
	e.hit(string(kind) + ".after")
	e.metrics.step(kind, began, err)
	var rej *fsm.Rejection
	switch {
	case err == nil:
		e.logger(v).Debug("step done", "step", kind, "took", time.Since(began))
	case errors.As(err, &rej):
		e.logger(v).Debug("step refused", "step", kind, "error", err)
	default:
		e.logger(v).Warn("step failed", "step", kind, "error", err)
	}
	return err
}
