package fsm

import (
	"cmp"
	"slices"
)

// unpublished is shared by all volumes that are ready and not published.
var unpublished Phase = Ready{}

// Publications are the volume's, none unless it is Ready.
func (v *Volume) Publications() []Publication {
	ready, _ := v.Phase.(Ready)
	return ready.Publications
}

// Publication is a node's, nil when it has none.
func (v *Volume) Publication(node NodeID) *Publication {
	held := v.Publications()
	for i := range held {
		if held[i].Node == node {
			return &held[i]
		}
	}
	return nil
}

// Replica is the one on that host, nil when there is none. One that is gone does not count.
func (v *Volume) Replica(host HostID) *Replica {
	for i := range v.Replicas {
		if v.Replicas[i].Host == host && v.Replicas[i].State != ReplicaGone {
			return &v.Replicas[i]
		}
	}
	return nil
}

// Teardown is what the host still owes of a revoked publication, nil when it owes nothing.
func (v *Volume) Teardown(host HostID) *Teardown {
	for i := range v.Teardowns {
		if v.Teardowns[i].Host == host {
			return &v.Teardowns[i]
		}
	}
	return nil
}

// Holders are the nodes that keep or owe something of the volume, each once.
func (v *Volume) Holders() []NodeID { return v.appendHolders(nil) }

func (v *Volume) appendHolders(nodes []NodeID) []NodeID {
	for i := range v.Replicas {
		if v.Replicas[i].State != ReplicaGone {
			nodes = appendNew(nodes, v.Replicas[i].Node)
		}
	}
	held := v.Publications()
	for i := range held {
		nodes = appendNew(nodes, held[i].Node)
	}
	for i := range v.Teardowns {
		nodes = appendNew(nodes, v.Teardowns[i].Node)
	}
	return nodes
}

func appendNew(nodes []NodeID, n NodeID) []NodeID {
	if slices.Contains(nodes, n) {
		return nodes
	}
	return append(nodes, n)
}

// allGone tells whether no host keeps anything of the volume.
func (v *Volume) allGone() bool {
	return !slices.ContainsFunc(v.Replicas, func(r Replica) bool { return r.State != ReplicaGone })
}

// The with-functions return a changed copy; what is shared with the original is
// never written to.

func (v *Volume) withReplica(r Replica) Volume {
	now := *v
	now.Replicas = slices.Clone(v.Replicas)
	for i := range now.Replicas {
		if now.Replicas[i].Host == r.Host {
			now.Replicas[i] = r
		}
	}
	return now
}

func (v *Volume) replicasWithout(host HostID) []Replica {
	replicas := slices.Clone(v.Replicas)
	for i := range replicas {
		if replicas[i].Host == host {
			replicas[i].State = ReplicaGone
		}
	}
	return replicas
}

func (v *Volume) withPublication(p Publication) Volume {
	now := *v
	held := slices.DeleteFunc(slices.Clone(v.Publications()), func(o Publication) bool { return o.Node == p.Node })
	held = append(held, p)
	slices.SortFunc(held, func(a, b Publication) int { return cmp.Compare(a.Node, b.Node) })
	now.Phase = Ready{Publications: held}
	return now
}

func (v *Volume) withoutPublication(node NodeID) Volume {
	now := *v
	held := slices.DeleteFunc(slices.Clone(v.Publications()), func(o Publication) bool { return o.Node == node })
	now.Phase = unpublished
	if len(held) > 0 {
		now.Phase = Ready{Publications: held}
	}
	return now
}

// withTeardown records an obligation; a host owes one at most, and the newest
// epoch stands for all before it, as the host reports what it observes.
func (v *Volume) withTeardown(t Teardown) Volume {
	now := *v
	now.Teardowns = append(v.teardownsWithout(t.Host), t)
	slices.SortFunc(now.Teardowns, func(a, b Teardown) int { return cmp.Compare(a.Node, b.Node) })
	return now
}

func (v *Volume) teardownsWithout(host HostID) []Teardown {
	kept := slices.DeleteFunc(slices.Clone(v.Teardowns), func(t Teardown) bool { return t.Host == host })
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// endTeardownOperation ends the operation when nothing is owed any more.
func (v *Volume) endTeardownOperation() {
	if v.Operation != nil && v.Operation.Kind == OpTeardown && len(v.Teardowns) == 0 {
		v.Operation = nil
	}
}
