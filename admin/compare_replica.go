package admin

import "github.com/holdfast-storage/holdfast/fsm"

// givenUp: the volume goes on without this replica, and the host reported it removed.
func givenUp(v *fsm.Volume, r *fsm.Replica) bool {
	return r.State == fsm.ReplicaGone && !transitional(v)
}

// moving: a Ready volume's replica that is being made or removed.
func moving(r *fsm.Replica) bool {
	return r.State == fsm.ReplicaPlanned || r.State == fsm.ReplicaLeaving
}

// resource: a replicated volume has a resource on each of its hosts, also while it is
// not published; others have none.
func (c *comparison) resource() {
	have := c.paths(kindResource)
	leg := c.volume.ReplicaSync(c.node.Host)
	switch {
	case c.volume.Replication == nil || leg == nil:
		c.each(&c.orphans, kindResource, have)
	case len(have) == 0 && leg.Boot == c.node.Boot && leg.Attachment > 0 && !leg.Observed.Unconfigured:
		c.add(&c.missing, kindResource, "")
	}
}
