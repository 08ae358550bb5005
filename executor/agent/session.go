package agent

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/fsm"
)

// desiredOf is the volume's desired state, as soon as the session has one.
func (t *table) desiredOf(ctx context.Context, v *volume) (*fsm.DesiredVolume, error) {
	ctx, cancel := context.WithTimeout(ctx, t.CatchUpTimeout)
	defer cancel()
	var latest *fsm.DesiredVolume // not v.desired afterwards: another update may have taken it away
	err := t.awaitDesired(ctx, v, func(d *fsm.DesiredVolume) bool {
		latest = d
		return d != nil
	})
	if err != nil {
		return nil, fsm.Reject(fsm.Busy, "volume %s: the controllers have not said yet what it is", v.id)
	}
	return latest, nil
}

// isActionable reports whether the volume's desired state may be acted on: this session's
// controller has applied what this host acted on (S14), the state was read after the volume's
// last grant, and the host is adopted (S1). It is not enough that the session has reached the
// grant's index: an update covers only the volumes that it lists, and this volume's may still be
// on its way. If not actionable, the volume is queued with the next update. The caller holds
// table.mu and the volume's lock.
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

// actingSession is the number of the current session, or an error when nothing may be brought
// up in it.
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

// atLevel2 reports whether the cluster runs at feature level 2 or above, by the session's last
// update. If not, this host proposes and reports only what level 1 defines (S72).
func (t *table) atLevel2() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session.level >= fsm.Level2
}

// incarnation is that of the log which answers now: the session's, or before the first session the highest that is known. The
// caller holds table.mu.
func (t *table) incarnation() uint64 {
	return max(t.session.at.Incarnation, t.highestIncarnation())
}

// highestIncarnation is the highest incarnation that the host acted for.
func (t *table) highestIncarnation() uint64 {
	at, _ := t.acted.Current()
	return at.Incarnation
}

// sessionHolds reports whether a grant of that session is still valid (S2).
func (t *table) sessionHolds(number uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session.number == number && t.session.adopted
}

// awaitDesired waits until the volume's desired state satisfies enough, or ctx ends.
func (t *table) awaitDesired(ctx context.Context, v *volume, enough func(*fsm.DesiredVolume) bool) error {
	for {
		t.mu.Lock()
		d, changed := v.desired, v.desiredChanged
		t.mu.Unlock()
		if enough(d) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
