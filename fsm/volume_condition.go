package fsm

import "fmt"

// StoredCondition is what the log knows of the volume's health: what its host reported, or else
// the condition of its replication, or else that its key is being replaced. Whether hosts are reachable is not part of it.
func (s *State) StoredCondition(v *Volume) (c Condition, ofReplication bool) {
	if v.Condition.Abnormal {
		return v.Condition, false
	}
	if replication := s.ReplicationCondition(v); replication.Abnormal {
		return replication, true
	}
	if v.Crypt != nil && v.Crypt.Rotation != nil {
		return Condition{Abnormal: true, Message: "a rotation of its key is not done: the key before and the new one may both open it; rotate it again if it was interrupted"}, false
	}
	return v.Condition, false
}

// VolumeView is all that describing some volumes needs of a state: their nodes and conditions.
// It never changes, so it can be read without the state's lock.
type VolumeView struct {
	nodes       map[NodeID]*Node
	conditions  map[VolumeID]Condition // of those whose stored condition is not what their host reported
	incarnation uint64
}

// VolumeView is the view of some volumes of the state.
func (s *State) VolumeView(volumes ...*Volume) *VolumeView {
	view := &VolumeView{nodes: map[NodeID]*Node{}, conditions: map[VolumeID]Condition{}, incarnation: s.cluster.Incarnation}
	for _, v := range volumes {
		if c, _ := s.StoredCondition(v); c != v.Condition {
			view.conditions[v.ID] = c
		}
		for i := range v.Replicas {
			if n, ok := s.Node(v.Replicas[i].Node); ok {
				view.nodes[n.ID] = n
			}
		}
	}
	return view
}

// Incarnation is the cluster's.
func (x *VolumeView) Incarnation() uint64 { return x.incarnation }

// AccessibleFrom are the topologies of the hosts that the volume can be published to, or could
// be once the cause of its unavailability is removed.
func (x *VolumeView) AccessibleFrom(v *Volume) []Topology {
	var all []Topology
	for i := range v.Replicas {
		if r := &v.Replicas[i]; r.isAccessible() {
			all = append(all, x.topology(r.Node))
		}
	}
	return all
}

func (r *Replica) isAccessible() bool { return r.State == ReplicaPresent || r.State == ReplicaMissing }

func (x *VolumeView) topology(id NodeID) Topology {
	if n, ok := x.nodes[id]; ok {
		return n.Topology()
	}
	return Topology{{Key: TopologyKey, Value: string(id)}}
}

// Condition is the volume's condition as the controllers see it: the stored one, or else why a
// replica is not available.
func (x *VolumeView) Condition(v *Volume) Condition {
	c, stored := x.conditions[v.ID]
	if !stored {
		c = v.Condition
	}
	for i := range v.Replicas {
		r := &v.Replicas[i]
		if c.Abnormal || !r.isAccessible() {
			continue
		}
		if problem := x.unavailability(r); problem != "" {
			c = Condition{Abnormal: true, Message: problem}
		}
	}
	return c
}

// unavailability says why a replica is not available; empty when it is.
func (x *VolumeView) unavailability(r *Replica) string {
	n, ok := x.nodes[r.Node]
	switch {
	case !ok || n.Host != r.Host:
		return fmt.Sprintf("node %s is no longer the host that holds the data", r.Node)
	case n.State == NodeLost:
		return fmt.Sprintf("node %s was recorded as lost", r.Node)
	case n.State == NodeUnreachable:
		return fmt.Sprintf("node %s cannot be reached", r.Node)
	case n.IsFenced():
		return fmt.Sprintf("node %s is fenced", r.Node)
	case n.Incarnation != x.incarnation:
		return fmt.Sprintf("node %s is in adoption mode", r.Node)
	case r.State == ReplicaMissing:
		return fmt.Sprintf("the device is missing on node %s", r.Node)
	}
	return ""
}
