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
	publications := v.Publications()
	for i := range publications {
		if publications[i].Node == node {
			return &publications[i]
		}
	}
	return nil
}

// Replica is the one on that host, nil when there is none. One that is Gone does not count.
func (v *Volume) Replica(host HostID) *Replica {
	for i := range v.Replicas {
		if v.Replicas[i].Host == host && v.Replicas[i].State != ReplicaGone {
			return &v.Replicas[i]
		}
	}
	return nil
}

// Teardown is the pending teardown of the host, nil when there is none.
func (v *Volume) Teardown(host HostID) *Teardown {
	for i := range v.Teardowns {
		if v.Teardowns[i].Host == host {
			return &v.Teardowns[i]
		}
	}
	return nil
}

// InvolvedNodes are the nodes that have a replica, a publication or a pending teardown of the
// volume, each once.
func (v *Volume) InvolvedNodes() []NodeID { return v.appendInvolvedNodes(nil) }

func (v *Volume) appendInvolvedNodes(nodes []NodeID) []NodeID {
	for i := range v.Replicas {
		if v.Replicas[i].State != ReplicaGone {
			nodes = appendNew(nodes, v.Replicas[i].Node)
		}
	}
	publications := v.Publications()
	for i := range publications {
		nodes = appendNew(nodes, publications[i].Node)
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

// The with-functions return a changed copy; the parts that it shares with the original are
// never written to.

// withReplica replaces what is recorded of a replica's device. Its ReplicaSync stays: r may
// have been read before that changed.
func (v *Volume) withReplica(r Replica) Volume {
	updated := *v
	updated.Replicas = slices.Clone(v.Replicas)
	for i := range updated.Replicas {
		if updated.Replicas[i].Host == r.Host {
			r.ReplicaSync = updated.Replicas[i].ReplicaSync
			updated.Replicas[i] = r
		}
	}
	return updated
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
	updated := *v
	publications := slices.DeleteFunc(slices.Clone(v.Publications()), func(o Publication) bool { return o.Node == p.Node })
	publications = append(publications, p)
	slices.SortFunc(publications, func(a, b Publication) int { return cmp.Compare(a.Node, b.Node) })
	updated.Phase = Ready{Publications: publications}
	return updated
}

func (v *Volume) withoutPublication(node NodeID) Volume {
	updated := *v
	publications := slices.DeleteFunc(slices.Clone(v.Publications()), func(o Publication) bool { return o.Node == node })
	updated.Phase = unpublished
	if len(publications) > 0 {
		updated.Phase = Ready{Publications: publications}
	}
	return updated
}

// withTeardown records a pending teardown; a host has one at most, and the newest
// epoch stands for all before it, as the host reports what it observes.
func (v *Volume) withTeardown(t Teardown) Volume {
	updated := *v
	updated.Teardowns = append(v.teardownsWithout(t.Host), t)
	slices.SortFunc(updated.Teardowns, func(a, b Teardown) int { return cmp.Compare(a.Node, b.Node) })
	return updated
}

func (v *Volume) teardownsWithout(host HostID) []Teardown {
	remaining := slices.DeleteFunc(slices.Clone(v.Teardowns), func(t Teardown) bool { return t.Host == host })
	if len(remaining) == 0 {
		return nil
	}
	return remaining
}
