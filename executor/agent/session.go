package agent

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/fsm"
)

// desiredOf is what the volume must be, as soon as the session says it.
func (t *table) desiredOf(ctx context.Context, v *volume) (*fsm.DesiredVolume, error) {
	ctx, cancel := context.WithTimeout(ctx, t.CatchUpTimeout)
	defer cancel()
	var latest *fsm.DesiredVolume // by now it may be taken back again
	err := t.awaitDesired(ctx, v, func(w *fsm.DesiredVolume) bool {
		latest = w
		return w != nil
	})
	if err != nil {
		return nil, fsm.Reject(fsm.Busy, "volume %s: the controllers have not said yet what it is", v.id)
	}
	return latest, nil
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
	if s.at.Compare(t.acted.OnDisk()) < 0 || v.desiredAt.Compare(v.record.Floor) < 0 {
		t.awaitingSession[v.id] = struct{}{}
		return false
	}
	return true
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
	at, _ := t.acted.Current()
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
