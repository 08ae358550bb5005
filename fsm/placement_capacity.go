package fsm

import "slices"

// AvailableReplicated is Available for volumes of as many replicas, each on a host of its own:
// the first within one of the terms, as volumes must be accessible from there, the
// second on any other host that holds replicas of replicated volumes.
func (s *State) AvailableReplicated(terms []Topology, replicas uint32, facts Facts) (largest, total int64) {
	return s.available(endpoint{}, nil, terms, replicas, facts)
}

// available is AvailableReplicated through an endpoint. The second host is at the same site, or at the
// other one of two.
func (s *State) available(at endpoint, sites []Site, terms []Topology, replicas uint32, facts Facts) (largest, total int64) {
	if replicas < MaxReplicas {
		return s.availableAt(at, terms, facts)
	}
	var hosts []hostRoom
	for n := range s.Nodes() {
		if s.schedulable(n) && n.canHoldReplicas() && (at.serves(n.site()) || slices.Contains(sites, n.site())) {
			hosts = append(hosts, s.hostRoom(at, n, terms, facts))
		}
	}
	var all, largestHost, within uint64
	for i := range hosts {
		all, largestHost = saturatingAdd(all, hosts[i].total), max(largestHost, hosts[i].total)
		if !hosts[i].within {
			continue
		}
		within = saturatingAdd(within, hosts[i].total)
		for j := range hosts {
			if i != j && (hosts[i].site == hosts[j].site) == (len(sites) == 0) || i != j && !at.named {
				largest = max(largest, min(hosts[i].largest, hosts[j].largest))
			}
		}
	}
	bytes := min(all/2, all-largestHost, within) // each byte is kept on two hosts
	return largest, int64(min(bytes-bytes%VolumeSizeUnit, 1<<63-VolumeSizeUnit))
}

// hostRoom is what new volumes could reserve on one host, in bytes.
type hostRoom struct {
	largest int64
	total   uint64
	within  bool // the terms, and the endpoint's site
	site    Site
}

func (s *State) hostRoom(at endpoint, n *Node, terms []Topology, facts Facts) hostRoom {
	room := hostRoom{within: at.serves(n.site()) && n.matchesAnyTerm(terms), site: n.site()}
	for i := range n.Pools {
		largest, free := s.poolRoom(&n.Pools[i], facts)
		room.largest = max(room.largest, largest)
		room.total = saturatingAdd(room.total, uint64(free))
	}
	return room
}

// saturatingAdd adds sizes, up to the largest number.
func saturatingAdd(a, b uint64) uint64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return 1<<64 - 1
}
