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

// changesDevice tells whether the host is changing what is below a Ready volume: to a replicated one and back, or to
// a kept copy. Its resource, and what is half done, may be there or not.
func changesDevice(v *fsm.Volume, r *fsm.Replica) bool {
	x := v.Replication
	return x != nil && (x.Conversion != nil || x.Revert != nil && !x.Revert.Done && x.Revert.Host == r.Host)
}

// isConvertedOn tells whether the replica has the content of a volume that is converted, or of which that is undone:
// its image is there all the time (S55).
func isConvertedOn(v *fsm.Volume, r *fsm.Replica) bool {
	x := v.Replication
	return x != nil && x.Conversion != nil && x.Seed == r.Host && r.State == fsm.ReplicaPresent
}

// isApart tells whether the replica was given up by force: once it was torn down it is left as it is, with or without
// a resource (S48).
func (c *comparison) isApart() bool {
	m := c.volume.RelationMember
	return m != nil && m.Apart && c.node.IsAt(m.ApartAt.String())
}

// compareResource compares DRBD resources: a replicated volume has one on each of its hosts,
// published or not; any other volume has none.
func (c *comparison) compareResource() {
	have := c.paths(kindResource)
	replica := c.volume.ActiveReplica(c.node.Host)
	switch {
	case c.volume.Replication == nil || replica == nil:
		c.addEach(&c.orphans, kindResource, have)
	case c.isApart():
	case len(have) == 0 && replica.Boot == c.node.Boot && replica.Attachment > 0 && !replica.Observed.Unconfigured:
		c.add(&c.missing, kindResource, "")
	}
}
