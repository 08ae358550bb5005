package admin

import "github.com/holdfast-storage/holdfast/fsm"

// isRemoved: the volume goes on without this replica, and the host reported it removed.
func isRemoved(v *fsm.Volume, r *fsm.Replica) bool {
	return r.State == fsm.ReplicaGone && !inTransition(v)
}

// replicaInTransition: a Ready volume's replica that is being made or removed.
func replicaInTransition(r *fsm.Replica) bool {
	return r.State == fsm.ReplicaPlanned || r.State == fsm.ReplicaLeaving
}

// resource: a replicated volume has a resource on each of its hosts, also while it is
// not published; others have none.
func (c *comparison) compareResource() {
	have := c.paths(kindResource)
	replica := c.volume.ActiveReplica(c.node.Host)
	switch {
	case c.volume.Replication == nil || replica == nil:
		c.addEach(&c.orphans, kindResource, have)
	case len(have) == 0 && replica.Boot == c.node.Boot && replica.Attachment > 0 && !replica.Observed.Unconfigured:
		c.add(&c.missing, kindResource, "")
	}
}
