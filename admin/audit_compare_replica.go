package admin

import "github.com/holdfast-storage/holdfast/fsm"

// isRemoved tells whether the host reported this replica removed while the volume stays.
func isRemoved(v *fsm.Volume, r *fsm.Replica) bool {
	return r.State == fsm.ReplicaGone && !inTransition(v)
}

// replicaInTransition tells whether a Ready volume's replica is being created or removed.
func replicaInTransition(r *fsm.Replica) bool {
	return r.State == fsm.ReplicaPlanned || r.State == fsm.ReplicaLeaving
}

// compareResource compares DRBD resources: a replicated volume has one on each of its hosts,
// published or not; any other volume has none.
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
