package sim

import "github.com/holdfast-storage/holdfast/fsm"

// volumes judges what the log says of volumes by what there is of them: a replica that it calls up to date has every
// acknowledged write (S5, S10), and no pool promises more than it may (S25).
type volumes struct {
	s        *Sim
	upToDate map[onHost]bool
}

func newVolumes(s *Sim) *volumes {
	return &volumes{s: s, upToDate: map[onHost]bool{}}
}

// committed is called for each volume after each entry of the log. Of a volume that is being deleted one host may have removed its
// replica when the other's report of both, which is older, is committed: nobody reads either any more.
func (c *volumes) committed(v *fsm.Volume) {
	if _, deleting := v.Phase.(fsm.Deleting); deleting || !v.Replicated() {
		return
	}
	for _, r := range v.ActiveReplicas() {
		at, now := onHost{v.ID, r.Host}, r.UpToDate && !r.Outdated
		if now && !c.upToDate[at] {
			c.complete(v, r)
		}
		c.upToDate[at] = now
	}
}

// complete: the log has just begun to call a replica up to date. It does so by the words of its hosts, which may be late: the
// kernel may have detached the disk since, which then has no part in anything before it is copied wholly (S67).
func (c *volumes) complete(v *fsm.Volume, r *fsm.Replica) {
	c.s.counts["replicas that were up to date"]++
	if !c.s.world.Host(r.Node).DiskAttached(v.ID) {
		c.s.counts["late words of a detached disk"]++
		return
	}
	if err := c.s.world.Ledger().CheckKept(v.ID, c.s.world.Host(r.Node).DiskStamps(v.ID)); err != nil {
		c.s.fail("stamps: the log calls the replica of %s on %s up to date: %v", v.Name, r.Node, err)
	}
}

// pools: what was decided for a pool's volumes is no more than its capacity and its overcommit allow.
func (c *volumes) pools() {
	for n := range c.s.log.state.Nodes() {
		for _, p := range n.Pools { // one that was absent when its host registered has no capacity
			reserved, _ := c.s.log.state.PoolUse(p.ID)
			if p.Capacity > 0 && reserved > p.Capacity/100*int64(p.OvercommitPercent) {
				c.s.fail("pool: %d bytes are promised of %s, which has %d", reserved, p.ID, p.Capacity)
			}
		}
	}
}
