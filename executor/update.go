package executor

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Update takes in what a session said. It is quick; the work is done behind it.
func (e *Executor) Update(u Update) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if u.Full {
		e.session.number++
		e.intake.dropUnlisted(&u)
	}
	if u.At.Incarnation != e.session.at.Incarnation {
		e.intake.resetForIncarnation()
	}
	if u.Full || u.Adopted != e.session.adopted || u.FeatureLevel != e.session.level {
		e.triggerKeptScan()
	}
	e.session.at, e.session.adopted, e.session.incarnationID = u.At, u.Adopted, u.IncarnationID
	e.session.level = u.FeatureLevel
	for i := range u.Volumes {
		e.intake.setDesired(u.Volumes[i].Volume, &u.Volumes[i], u.At)
	}
	for _, id := range u.VolumesGone {
		e.intake.setDesired(id, nil, u.At)
	}
	for i := range u.Snapshots {
		e.intake.setDesiredSnapshot(u.Snapshots[i].Snapshot, &u.Snapshots[i], u.At)
	}
	for _, id := range u.SnapshotsGone {
		e.intake.setDesiredSnapshot(id, nil, u.At)
	}
	e.intake.requeueAwaiting()
}

// resetForIncarnation: a generation is of one incarnation, whose indexes another one
// gives again (S1); what one log took another may not know. The caller holds mu.
func (in *sessionIntake) resetForIncarnation() {
	for _, v := range in.volumes {
		v.replica.generation, v.replica.connectedGeneration = 0, 0
		clear(v.committed)
		v.ackedHealth, v.ackedLimits = nil, nil
	}
	for _, c := range in.snapshots {
		clear(c.acked) // also what lasts: no wish would show that it is not known
	}
}

// dropUnlisted drops the wishes for volumes that a full update does not list.
func (in *sessionIntake) dropUnlisted(u *Update) {
	listed := map[fsm.VolumeID]bool{}
	for i := range u.Volumes {
		listed[u.Volumes[i].Volume] = true
	}
	for id, v := range in.volumes {
		switch {
		case listed[id]:
		case v.desired != nil || in.session.number == 1:
			in.setDesired(id, nil, u.At)
		default:
			v.desiredAt = u.At
		}
	}
	in.dropUnlistedSnapshots(u)
}

// setDesired notes what the log wants of a volume, nil when it wants nothing. The
// caller holds mu.
func (in *sessionIntake) setDesired(id fsm.VolumeID, w *fsm.DesiredVolume, at fsm.Epoch) {
	v, known := in.volumes[id]
	if !known {
		if w == nil || !id.Valid() {
			return
		}
		v = in.volumeEntry(id)
	}
	v.desired, v.desiredAt = w, at
	v.noteGeneration(w)
	v.dropShown(at)
	close(v.desiredChanged)
	v.desiredChanged = make(chan struct{})
	in.volumeQueue.add(id)
}

// requeueAwaiting looks again at volumes for which the session was behind. The
// caller holds mu.
func (in *sessionIntake) requeueAwaiting() {
	for id := range in.awaitingSession {
		delete(in.awaitingSession, id)
		in.volumeQueue.add(id)
	}
	for _, c := range in.snapshots {
		if c.awaitingSession {
			c.awaitingSession = false
			in.snapshotQueue.add(c.id)
		}
	}
}

// fresh tells whether the volume's wish may be acted on: this session's controller
// has applied what this host acted on (S14), the wish was read after the volume's last
// grant, and the host is adopted (S1). That the session is as far as the grant is not
// enough: an update speaks of the volumes that it names only, and another's may be on its
// way. If not, the volume is looked at again with the next update. The caller holds mu
// and the volume's lock.
func (t *table) isActionable(v *volume) bool {
	s := &t.session
	if s.number == 0 || !s.adopted {
		t.awaitingSession[v.id] = struct{}{}
		return false
	}
	if s.at.Compare(t.acted.onDisk()) < 0 || v.desiredAt.Compare(v.record.Floor) < 0 {
		t.awaitingSession[v.id] = struct{}{}
		return false
	}
	return true
}

// unavailable is an error that the quorum's return cures (S28).
type unavailable struct{ err error }

func (u *unavailable) Error() string     { return u.err.Error() }
func (u *unavailable) Unwrap() error     { return u.err }
func (u *unavailable) Unavailable() bool { return true }

// isUnavailable tells whether the quorum was needed and not there.
func isUnavailable(err error) bool {
	var u interface{ Unavailable() bool }
	return errors.As(err, &u) && u.Unavailable()
}

// actingSession tells whether anything may be brought up in this session at all, and
// which session that is.
func (t *table) actingSession() (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.session.number == 0 || t.Proposer == nil:
		return 0, &unavailable{errors.New("this host has no session with a controller yet")}
	case !t.session.adopted, t.session.at.Incarnation < t.highestIncarnation():
		return 0, fsm.Reject(fsm.Precondition, "node %s is in adoption mode until an operator adopts it", t.Node)
	}
	return t.session.number, nil
}

// atLevel2 tells whether the cluster runs at feature level 2 or above, as the session
// said last. Where it does not, this host proposes and reports what level 1 knows (S72).
func (t *table) atLevel2() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session.level >= fsm.Level2
}

// highestIncarnation is the highest that the host acted for.
func (t *table) highestIncarnation() uint64 {
	at, _ := t.acted.current()
	return at.Incarnation
}

// sessionHolds tells whether a grant of that session is still worth something (S2).
func (t *table) sessionHolds(number uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session.number == number && t.session.adopted
}

// awaitDesired waits until the volume's wish is as asked. It gives up with ctx.
func (t *table) awaitDesired(ctx context.Context, v *volume, enough func(*fsm.DesiredVolume) bool) error {
	for {
		t.mu.Lock()
		w, changed := v.desired, v.desiredChanged
		t.mu.Unlock()
		if enough(w) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
