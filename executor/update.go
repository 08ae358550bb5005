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
		e.forget(&u)
	}
	if u.At.Incarnation != e.session.at.Incarnation {
		e.forgetGenerations()
	}
	if u.Full || u.Adopted != e.session.adopted || u.Level != e.session.level {
		e.lookForCopies()
	}
	e.session.at, e.session.adopted, e.session.incarnationID = u.At, u.Adopted, u.IncarnationID
	e.session.level = u.Level
	for i := range u.Wishes {
		e.wished(u.Wishes[i].Volume, &u.Wishes[i], u.At)
	}
	for _, id := range u.Gone {
		e.wished(id, nil, u.At)
	}
	for i := range u.Snapshots {
		e.wishedSnapshot(u.Snapshots[i].Snapshot, &u.Snapshots[i], u.At)
	}
	for _, id := range u.SnapshotsGone {
		e.wishedSnapshot(id, nil, u.At)
	}
	e.queueWaiting()
}

// forgetGenerations: a generation is of one incarnation, whose indexes another one
// gives again (S1); what one log took another may not know. The caller holds mu.
func (e *Executor) forgetGenerations() {
	for _, v := range e.volumes {
		v.replica.generation, v.replica.sawConnected = 0, 0
		clear(v.known)
		v.heardHealth, v.limits = nil, nil
	}
	for _, c := range e.snapshots {
		clear(c.told) // also what lasts: no wish would show that it is not known
	}
}

// forget drops the wishes for volumes that a full update does not list.
func (e *Executor) forget(u *Update) {
	listed := map[fsm.VolumeID]bool{}
	for i := range u.Wishes {
		listed[u.Wishes[i].Volume] = true
	}
	for id, v := range e.volumes {
		switch {
		case listed[id]:
		case v.wish != nil || e.session.number == 1:
			e.wished(id, nil, u.At)
		default:
			v.wishAt = u.At
		}
	}
	e.forgetSnapshots(u)
}

// wished notes what the log wants of a volume, nil when it wants nothing. The
// caller holds mu.
func (e *Executor) wished(id fsm.VolumeID, w *fsm.DesiredVolume, at fsm.Epoch) {
	v, known := e.volumes[id]
	if !known {
		if w == nil || !id.Valid() {
			return
		}
		v = e.volume(id)
	}
	v.wish, v.wishAt = w, at
	v.noteReplica(w)
	for f, told := range v.told {
		if at.Compare(told.at) >= 0 {
			delete(v.told, f)
		}
	}
	close(v.news)
	v.news = make(chan struct{})
	e.queue.add(id)
}

// queueWaiting looks again at volumes for which the session was behind. The
// caller holds mu.
func (e *Executor) queueWaiting() {
	for id := range e.behind {
		delete(e.behind, id)
		e.queue.add(id)
	}
	for _, c := range e.snapshots {
		if c.behind {
			c.behind = false
			e.cuts.add(c.id)
		}
	}
}

// fresh tells whether the volume's wish may be acted on: this session's controller
// has applied what this host acted on (S14), the wish was read after the volume's last
// grant, and the host is adopted (S1). That the session is as far as the grant is not
// enough: an update speaks of the volumes that it names only, and another's may be on its
// way. If not, the volume is looked at again with the next update. The caller holds mu
// and the volume's lock.
func (e *Executor) fresh(v *volume) bool {
	s := &e.session
	if s.number == 0 || !s.adopted {
		e.behind[v.id] = struct{}{}
		return false
	}
	if s.at.Compare(e.seen.onDisk()) < 0 || v.wishAt.Compare(v.journal.Floor) < 0 {
		e.behind[v.id] = struct{}{}
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

// mayAct tells whether anything may be brought up in this session at all, and
// which session that is.
func (e *Executor) mayAct() (uint64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.session.number == 0 || e.Log == nil:
		return 0, &unavailable{errors.New("this host has no session with a controller yet")}
	case !e.session.adopted, e.session.at.Incarnation < e.incarnation():
		return 0, fsm.Reject(fsm.Precondition, "node %s is in adoption mode until an operator adopts it", e.Node)
	}
	return e.session.number, nil
}

// level2 tells whether the cluster runs at feature level 2 or above, as the session
// said last. Where it does not, this host proposes and reports what level 1 knows (S72).
func (e *Executor) level2() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.session.level >= fsm.Level2
}

// incarnation is the highest that the host acted for.
func (e *Executor) incarnation() uint64 {
	at, _ := e.seen.get()
	return at.Incarnation
}

// inSession tells whether a grant of that session is still worth something (S2).
func (e *Executor) inSession(number uint64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.session.number == number && e.session.adopted
}

// awaitWish waits until the volume's wish is as asked. It gives up with ctx.
func (e *Executor) awaitWish(ctx context.Context, v *volume, enough func(*fsm.DesiredVolume) bool) error {
	for {
		e.mu.Lock()
		w, news := v.wish, v.news
		e.mu.Unlock()
		if enough(w) {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
