package fsm

// AvailableTo is Available for volumes of as many replicas, each on a host of its own:
// the first within one of the terms, as volumes must be accessible from there, the
// second on any other host that holds replicas of replicated volumes.
func (s *State) AvailableTo(terms []Topology, replicas uint32, facts Facts) (largest, total int64) {
	if replicas < mostReplicas {
		return s.Available(terms, facts)
	}
	var hosts []hostRoom
	for n := range s.Nodes() {
		if s.placeable(n) && n.replicates() {
			hosts = append(hosts, s.roomOf(n, terms, facts))
		}
	}
	var all, most, within uint64
	for i := range hosts {
		all, most = plus(all, hosts[i].total), max(most, hosts[i].total)
		if !hosts[i].within {
			continue
		}
		within = plus(within, hosts[i].total)
		for j := range hosts {
			if i != j {
				largest = max(largest, min(hosts[i].largest, hosts[j].largest))
			}
		}
	}
	bytes := min(all/2, all-most, within) // each byte is kept on two hosts
	return largest, int64(min(bytes-bytes%VolumeSizeUnit, 1<<63-VolumeSizeUnit))
}

// hostRoom is what new volumes could reserve on one host, in bytes.
type hostRoom struct {
	largest int64
	total   uint64
	within  bool // the terms
}

func (s *State) roomOf(n *Node, terms []Topology, facts Facts) hostRoom {
	room := hostRoom{within: n.within(terms)}
	for i := range n.Pools {
		largest, free := s.room(&n.Pools[i], facts)
		room.largest = max(room.largest, largest)
		room.total = plus(room.total, uint64(free))
	}
	return room
}

// plus adds sizes, up to the largest number.
func plus(a, b uint64) uint64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return 1<<64 - 1
}
