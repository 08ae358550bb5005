package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// loopfileBackend is the backend that new volumes are placed on.
const loopfileBackend = "loopfile"

// recentPlacements bounds how many of the newest placements are counted against a
// measured fact, so that a placement costs the same however old its facts are.
// More are placed between two measurements only in a burst of empty volumes.
const recentPlacements = 128

// wanted is what a volume needs of a pool.
type wanted struct {
	size      int64
	requisite []Topology
	preferred []Topology
	facts     []*fsmpb.PoolFact
}

// place chooses one pool, as a pure function of the state and the wanted (S25):
// a reachable host within the requisite topology, in the first preferred term that
// has room, there the pool with the most unreserved bytes, ties by ids.
func (s *State) place(w wanted) (Replica, *Rejection) {
	for _, term := range w.preferred {
		if best, _ := s.best(w, []Topology{term}); best != nil {
			return *best, nil
		}
	}
	best, hosts := s.best(w, nil)
	switch {
	case best != nil:
		return *best, nil
	case hosts == 0 && len(w.requisite) > 0:
		return Replica{}, Reject(NoCapacity, "no reachable host with a pool matches the topology that is required")
	case hosts == 0:
		return Replica{}, Reject(NoCapacity, "no reachable host has a pool")
	}
	return Replica{}, Reject(NoCapacity, "no pool has room for %d bytes: of the matching hosts' pools each is reserved to its limit or nearly full", w.size)
}

// best is the pool with the most unreserved bytes within the terms, nil when none
// admits the volume, and how many hosts were in question.
func (s *State) best(w wanted, terms []Topology) (best *Replica, hosts int) {
	most := int64(-1)
	for n := range s.Nodes() {
		if !s.placeable(n) || !n.within(w.requisite) || !n.within(terms) {
			continue
		}
		hosts++
		for i := range n.Pools {
			p := &n.Pools[i]
			if free := s.unreserved(p); free >= w.size && free > most && s.roomy(p, w.facts) {
				most = free
				best = &Replica{Node: n.ID, Host: n.Host, Pool: p.ID, State: ReplicaPlanned}
			}
		}
	}
	return best, hosts
}

// placeable: new volumes go to hosts that can be asked and act for this incarnation (S1).
func (s *State) placeable(n *Node) bool {
	return n.State == NodeReachable && n.Incarnation == s.cluster.Incarnation && len(n.Pools) > 0
}

// unreserved is what the state alone admits (S25): the capacity times the
// over-commit ratio, less all reservations.
func (s *State) unreserved(p *Pool) int64 {
	if p.Backend != loopfileBackend {
		return -1
	}
	reserved, _ := s.PoolUse(p.ID)
	return percentOf(p.Capacity, p.OvercommitPercent) - reserved
}

// roomy is false when a measured fact says that the pool is nearly full. A fact
// only excludes. What was placed after it was measured is counted with its share:
// a thin volume is expected to fill its size divided by the over-commit ratio.
func (s *State) roomy(p *Pool, facts []*fsmpb.PoolFact) bool {
	for _, f := range facts {
		if PoolID(f.GetPoolId()) == p.ID {
			return f.GetFreeBytes()-s.shareSince(p, f.GetIndex()) >= p.MinFree
		}
	}
	return true
}

// shareSince is the share of the volumes placed in the pool after the index.
func (s *State) shareSince(p *Pool, index uint64) int64 {
	var placed, seen int64
	s.index.byCreation.Reverse(func(created uint64, r *volumeRecord) bool {
		if seen++; created <= index || seen > recentPlacements {
			return false
		}
		r.eachReservation(func(pool PoolID, size int64) {
			if pool == p.ID {
				placed += size
			}
		})
		return true
	})
	return placed * 100 / max(1, int64(p.OvercommitPercent)) // at most 128 volumes of 16 TiB: no overflow
}

// Available is how many bytes a new volume of one of the terms' topologies could
// reserve at most in one pool, and in all pools together: GetCapacity's answer.
func (s *State) Available(terms []Topology) (largest, total int64) {
	for n := range s.Nodes() {
		if !s.placeable(n) || !n.within(terms) {
			continue
		}
		for i := range n.Pools {
			free := max(0, s.unreserved(&n.Pools[i]))
			free -= free % VolumeSizeUnit
			largest = max(largest, min(free, MaxVolumeSize))
			if total += free; total < 0 {
				total = 1<<63 - 1 - (1<<63-1)%VolumeSizeUnit
			}
		}
	}
	return largest, total
}
