package fsm

import (
	"slices"
	"strings"
)

// originsOf are the origins of a source's content, on each host that a volume of it can
// be made on; the first is the default where no other is preferred.
// A snapshot is on the one host that took it.
func (s *State) originsOf(from Source, first *origin) []origin {
	all := []origin{*first}
	v, ok := s.Volume(from.Volume)
	if !ok || !s.sameOnAllHosts(v) {
		return all
	}
	for i := range v.Replicas {
		r := &v.Replicas[i]
		l := v.ActiveReplica(r.Host)
		if r.Host == first.node.Host || r.State != ReplicaPresent || l == nil || !l.UpToDate || !v.Replication.seesBothUpToDate(l) {
			continue
		}
		if host, rej := s.askableHost(first.description, r.Node, r.Host); rej == nil {
			other := *first
			other.node, other.pool = host, r.Pool
			all = append(all, other)
		}
	}
	return all
}

// sameOnAllHosts is false while a host uses a replicated volume, or may: its writes can be
// frozen on that host only (S19).
func (s *State) sameOnAllHosts(v *Volume) bool {
	if v.Replication == nil || len(v.Publications()) > 0 || len(v.Teardowns) > 0 {
		return false
	}
	return !slices.ContainsFunc(v.ActiveReplicas(), func(l *Replica) bool { return s.mayBePrimary(v, l.Host) })
}

// placeWithSource chooses the pool of the first volume beside one of the origins: on a host
// within the requisite topology, by the preferred terms in their order, then as the
// origins come.
func (s *State) placeWithSource(all []origin, w *placementRequest) (Replica, *Rejection) {
	within := slices.DeleteFunc(slices.Clone(all), func(o origin) bool { return !o.node.matchesAnyTerm(w.requisite) || !w.at.serves(o.node.site()) })
	if len(within) == 0 {
		return Replica{}, rejectElsewhere(all)
	}
	slices.SortStableFunc(within, func(a, b origin) int { return w.rank(a.node) - w.rank(b.node) })
	var full *Rejection
	for i := range within {
		r, rej := s.replicaInOriginPool(&within[i], w.size, w.facts)
		if rej == nil {
			return r, nil
		}
		if full == nil {
			full = rej
		}
	}
	return Replica{}, full
}

// rank orders hosts: one that cannot have the replicas that are asked for comes last,
// before it those of no preferred term, and the others by the first term they are in.
func (w *placementRequest) rank(n *Node) int {
	if w.replicated && !n.canHoldReplicas() {
		return len(w.preferred) + 1
	}
	for i, term := range w.preferred {
		if n.matchesSegments(term.GetSegments()) {
			return i
		}
	}
	return len(w.preferred)
}

// rejectElsewhere is for a topology that leaves out all hosts that keep the source: a
// scheduler that chose a host chooses again.
func rejectElsewhere(all []origin) *Rejection {
	nodes := make([]string, len(all))
	for i := range all {
		nodes[i] = string(all[i].node.ID)
	}
	return Reject(NoCapacity, "%s is kept by node %s, outside of the topology that is required, and is not copied to other hosts: let the workload run there, or use a class with volumeBindingMode Immediate",
		all[0].description, strings.Join(nodes, " and by node "))
}

// canBeMadeFrom tells whether the volume can be made of its source where its first replica is (S116).
func (s *State) canBeMadeFrom(v *Volume, first *origin) bool {
	return first.size <= v.Size && slices.ContainsFunc(s.originsOf(v.Source, first), func(o origin) bool {
		return o.node.Host == v.Replicas[0].Host && o.pool == v.Replicas[0].Pool
	})
}
