package session

import (
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// newRegistration says more than the one before it: the capacity of a pool that was absent then.
type newRegistration struct {
	before, now *fsmpb.RegisterNode
}

// noticeCapacity has the host registered again, within its session, when a pool was measured of which
// the last registration had no capacity: nothing is placed in such a pool.
func (c *Client) noticeCapacity(facts []executor.PoolFacts) {
	before := c.registered.Load()
	unknown := poolsWithoutCapacity(before)
	measured := false
	for _, f := range facts {
		measured = measured || unknown[f.ID] && !f.Absent && f.Capacity > 0
	}
	if !measured {
		return
	}
	now := c.Register()
	if !saysMore(unknown, now) {
		return // it is absent again
	}
	select {
	case c.registrationReady <- newRegistration{before, now}:
	default: // one waits for the session; it is compared again
	}
}

// poolsWithoutCapacity are the pools of which the registration has no capacity.
func poolsWithoutCapacity(r *fsmpb.RegisterNode) map[fsm.PoolID]bool {
	unknown := map[fsm.PoolID]bool{}
	for _, p := range r.GetPools() {
		if p.GetCapacityBytes() == 0 {
			unknown[fsm.PoolID(p.GetPoolId())] = true
		}
	}
	return unknown
}

func saysMore(unknown map[fsm.PoolID]bool, now *fsmpb.RegisterNode) bool {
	for _, p := range now.GetPools() {
		if unknown[fsm.PoolID(p.GetPoolId())] && p.GetCapacityBytes() > 0 {
			return true
		}
	}
	return false
}

// registerAgain sends another registration. One that was made before this session's last is dropped.
func (h *hostSession) registerAgain(r newRegistration) error {
	if r.before != h.registered.Load() {
		return nil
	}
	acted, _ := h.ActedEpoch()
	return h.sendHello(r.now, acted)
}
