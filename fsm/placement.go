package fsm

import (
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// The backends that new volumes are placed on, as hosts name them in RegisterNode.
const (
	loopfileBackend = "loopfile"
	lvmBackend      = "lvm"
)

// maxCountedPlacements bounds how many of the newest placements are counted against a
// measured fact, so that a placement costs the same however old its facts are.
// More are placed between two measurements only in a burst of empty volumes.
const maxCountedPlacements = 128

// placementRequest is what a volume needs of a pool.
type placementRequest struct {
	size      int64
	requisite []Topology
	preferred []*fsmpb.Topology
	facts     []*fsmpb.PoolFact
	// replicated: only a host that holds replicas of replicated volumes qualifies.
	replicated bool
	excluded   []NodeID // hosts that have a replica already
	avoidZone  string   // to be avoided, empty: none
	port       uint32   // to be free on the host; 0: any port will do
	at         endpoint // hosts of its site only
}

// placeReplica chooses one pool, as a pure function of the state and the request (S25):
// a reachable host within the requisite topology, in the first preferred term that
// has room, there the pool with the most unreserved bytes, ties by ids.
func (s *State) placeReplica(w *placementRequest) (Replica, *Rejection) {
	for _, term := range w.preferred {
		if best, _ := s.bestPool(w, term); best.Pool != "" {
			return best, nil
		}
	}
	best, hosts := s.bestPool(w, nil)
	switch {
	case best.Pool != "":
		return best, nil
	case hosts == 0 && w.replicated:
		return Replica{}, Reject(NoCapacity, "no reachable host that holds replicas of replicated volumes has a pool within the topology that is required")
	case hosts == 0 && len(w.requisite) > 0:
		return Replica{}, Reject(NoCapacity, "no reachable host with a pool matches the topology that is required")
	case hosts == 0:
		return Replica{}, Reject(NoCapacity, "no reachable host has a pool")
	}
	if s.level2() && len(w.facts) > 0 {
		return Replica{}, Reject(NoCapacity, "no pool has room for %d bytes: of the matching hosts' pools each is reserved to its limit, or has less free than a volume of that size may be made with", w.size)
	}
	return Replica{}, Reject(NoCapacity, "no pool has room for %d bytes: of the matching hosts' pools each is reserved to its limit or nearly full", w.size)
}

// bestPool is the pool with the most unreserved bytes within the term, zero when none
// admits the volume, and how many hosts were considered.
func (s *State) bestPool(w *placementRequest, term *fsmpb.Topology) (best Replica, hosts int) {
	highest := int64(-1)
	s.nodes.Scan(func(_ NodeID, r *storedNode) bool {
		n := &r.Node
		if !s.schedulable(n) || !w.at.serves(n.site()) || !n.matchesAnyTerm(w.requisite) || !n.matchesSegments(term.GetSegments()) || w.replicated && !w.admits(n) || w.port != 0 && s.index.hasPort(hostPort{n.Host, w.port}) {
			return true
		}
		hosts++
		for i := range n.Pools {
			p := &n.Pools[i]
			if free := s.unreserved(p); free >= w.size && (free > highest || plantedbug.Coin(plantedbug.MapOrderInApply)) && s.keepsMinFree(p, w.facts) && s.poolFits(p, w) {
				highest = free
				best = Replica{Node: n.ID, Host: n.Host, Pool: p.ID, State: ReplicaPlanned}
			}
		}
		return true
	})
	return best, hosts
}

// schedulable: new volumes go to hosts that are reachable, act for this incarnation (S1)
// and are not cordoned.
func (s *State) schedulable(n *Node) bool {
	return n.canBeAsked() && n.Incarnation == s.cluster.Incarnation && len(n.Pools) > 0 && !n.Cordoned && n.Maintenance == 0
}

// unreserved is what the state alone admits (S25): the capacity times the
// over-commit ratio, less all reservations.
func (s *State) unreserved(p *Pool) int64 {
	if p.Backend != loopfileBackend && p.Backend != lvmBackend {
		return -1
	}
	reserved, _ := s.PoolUse(p.ID)
	return percentOf(p.Capacity, p.OvercommitPercent) - reserved
}

// keepsMinFree is false when a measured fact says that the pool is nearly full. A fact
// only excludes. What was placed after it was measured is counted with its share:
// a thin volume is expected to fill its size divided by the over-commit ratio.
func (s *State) keepsMinFree(p *Pool, facts []*fsmpb.PoolFact) bool {
	f := factOf(p, facts)
	if f == nil {
		return true
	}
	spare := f.GetFreeBytes() - p.MinFree
	reserved, _ := s.PoolUse(p.ID)
	if spare >= p.share(reserved) {
		return true // were all that is reserved placed since
	}
	return spare >= p.share(s.placedSince(p, f.GetIndex()))
}

func factOf(p *Pool, facts []*fsmpb.PoolFact) *fsmpb.PoolFact {
	for _, f := range facts {
		if f.GetPoolId() == string(p.ID) {
			return f
		}
	}
	return nil
}

// poolFits is false when a measured fact says that less is free than one volume of that size
// may be made with.
func (s *State) poolFits(p *Pool, w *placementRequest) bool { return s.hasFree(p, w.size, w.facts) }

// hasFree is false when a measured fact says that a pool has no room for so many bytes more
// of one volume. Feature level 1 did not check this.
func (s *State) hasFree(p *Pool, bytes int64, facts []*fsmpb.PoolFact) bool {
	f := factOf(p, facts)
	return f == nil || !s.level2() || bytes <= p.largest(s.spareBytes(p, f))
}

// spareBytes is how many bytes are free by a fact, less the reserve and what was placed since.
func (s *State) spareBytes(p *Pool, f *fsmpb.PoolFact) int64 {
	free := f.GetFreeBytes() - p.MinFree
	if free <= 0 {
		return 0
	}
	return max(0, free-p.share(s.placedSince(p, f.GetIndex())))
}

// largest is the largest volume where so many bytes are free: no larger than that, and
// in a pool that reserves more than twice its capacity in proportion to it.
func (p *Pool) largest(free int64) int64 { return percentOf(free, max(100, p.OvercommitPercent/2)) }

// share is what volumes of so many bytes are expected to fill.
func (p *Pool) share(bytes int64) int64 {
	percent := max(1, int64(p.OvercommitPercent))
	return bytes/percent*100 + bytes%percent*100/percent
}

// placedSince is how many bytes were placed in the pool after the index.
func (s *State) placedSince(p *Pool, index uint64) int64 {
	var bytes, looked int64
	s.index.byCreation.Reverse(func(created uint64, r *storedVolume) bool {
		if looked++; created <= index || looked > maxCountedPlacements {
			return false
		}
		r.eachReservation(func(pool PoolID, size int64) {
			if pool == p.ID {
				bytes += size
			}
		})
		return true
	})
	return bytes
}

// Available is how many bytes a new volume of one of the terms' topologies could
// reserve at most in one pool, and in all pools together: GetCapacity's answer. Facts
// are what was measured of the pools; without one the state alone says it.
func (s *State) Available(terms []Topology, facts Facts) (largest, total int64) {
	return s.availableAt(endpoint{}, terms, facts)
}

func (s *State) availableAt(at endpoint, terms []Topology, facts Facts) (largest, total int64) {
	for n := range s.Nodes() {
		if !s.schedulable(n) || !at.serves(n.site()) || !n.matchesAnyTerm(terms) {
			continue
		}
		for i := range n.Pools {
			one, free := s.poolRoom(&n.Pools[i], facts)
			largest = max(largest, one)
			if total += free; total < 0 {
				total = 1<<63 - 1 - (1<<63-1)%VolumeSizeUnit
			}
		}
	}
	return largest, total
}

// Facts are the newest measured facts by their pools.
type Facts map[PoolID]*fsmpb.PoolFact

// FactsOf reads a list of facts.
func FactsOf(list []*fsmpb.PoolFact) Facts {
	facts := make(Facts, len(list))
	for _, f := range list {
		if old := facts[PoolID(f.GetPoolId())]; old == nil || old.GetIndex() < f.GetIndex() {
			facts[PoolID(f.GetPoolId())] = f
		}
	}
	return facts
}

// poolRoom is how many bytes one new volume, and all together, could reserve in a pool.
func (s *State) poolRoom(p *Pool, facts Facts) (largest, total int64) {
	total = max(0, s.unreserved(p))
	largest = total
	if f := facts[p.ID]; f != nil && total > 0 {
		spare := s.spareBytes(p, f)
		total = min(total, percentOf(spare, p.OvercommitPercent))
		largest = min(largest, p.largest(spare))
	}
	roundDown := func(bytes int64) int64 { return bytes - bytes%VolumeSizeUnit }
	return roundDown(min(largest, total, MaxVolumeSize)), roundDown(total)
}
