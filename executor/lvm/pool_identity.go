package lvm

import (
	"errors"
	"fmt"
)

// absentError is why a pool cannot be used now (S12). It may come back.
type absentError struct{ detail string }

func (e *absentError) Error() string { return e.detail }

func isAbsent(err error) bool {
	var absent *absentError
	return errors.As(err, &absent)
}

// verifyIdentity returns the pool's state as LVM reported it, or an *absentError: without the
// pool's id nothing in it may be trusted (S12).
func (p *thinPool) verifyIdentity(state *poolState, err error) (*poolState, error) {
	switch {
	case errors.Is(err, errNoGroup):
		return nil, &absentError{fmt.Sprintf("pool %s is absent: there is no volume group %s", p.name(), p.VG)}
	case err != nil:
		return nil, err
	}
	id, err := state.poolID()
	switch {
	case err != nil:
		return nil, &absentError{fmt.Sprintf("pool %s is absent: %v", p.name(), err)}
	case id != p.id:
		return nil, &absentError{fmt.Sprintf("pool %s is absent: it is pool %s, not %s", p.name(), id, p.id)}
	case !p.isFirstSeen(state.groupUUID + state.pool.uuid):
		return nil, &absentError{fmt.Sprintf("pool %s is absent: it is another one than at the start; restart the node if that is meant", p.name())}
	}
	return state, nil
}

// isFirstSeen records the UUID of the pool that was observed first, and reports whether this is
// it: a copy of a pool carries the same tag.
func (p *thinPool) isFirstSeen(uuid string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.firstUUID == "" {
		p.firstUUID = uuid
	}
	return p.firstUUID == uuid
}
