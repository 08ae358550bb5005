package policy

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// maxPlacementFacts is how many candidate pools a placement carries facts of (S25).
const maxPlacementFacts = 16

// poolCandidate is a pool that was measured, and what the placement will look at.
type poolCandidate struct {
	fact       *fsmpb.PoolFact
	topology   fsm.Topology
	unreserved int64 // bytes
}

// poolCandidates joins what was measured with the state's pools, in the order in
// which placement prefers them: most unreserved bytes first.
func poolCandidates(state *fsm.State, sessions []*sessionpb.SessionFacts) []poolCandidate {
	var all []poolCandidate
	for _, s := range sessions {
		node, ok := state.Node(fsm.NodeID(s.GetNodeId()))
		if !ok || string(node.Host) != s.GetHostId() {
			continue // a host speaks for its own record only (S17, S20)
		}
		for _, p := range s.GetTelemetry().GetPools() {
			if c, ok := newPoolCandidate(state, node, p, s.GetIndex()); ok {
				all = append(all, c)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b poolCandidate) int {
		// Of a pool that two sessions measured, the newer fact comes first.
		return cmp.Or(cmp.Compare(b.unreserved, a.unreserved), cmp.Compare(a.fact.GetPoolId(), b.fact.GetPoolId()),
			cmp.Compare(b.fact.GetIndex(), a.fact.GetIndex()))
	})
	return all
}

func newPoolCandidate(state *fsm.State, node *fsm.Node, measured *sessionpb.PoolTelemetry, index uint64) (poolCandidate, bool) {
	i := slices.IndexFunc(node.Pools, func(p fsm.Pool) bool { return string(p.ID) == measured.GetPoolId() })
	if i < 0 {
		return poolCandidate{}, false
	}
	pool := &node.Pools[i]
	reserved, _ := state.PoolUse(pool.ID)
	free := measured.GetFreeBytes()
	if measured.GetAbsent() {
		free = -1 // below every reserve: nothing is placed in a pool that is not there (S12)
	}
	return poolCandidate{
		fact:       &fsmpb.PoolFact{PoolId: measured.GetPoolId(), FreeBytes: free, Index: index},
		topology:   node.Topology(),
		unreserved: overcommitLimit(pool) - reserved,
	}, true
}

// overcommitLimit is the capacity times the over-commit ratio, near enough for an order.
func overcommitLimit(p *fsm.Pool) int64 {
	return int64(min(float64(p.Capacity)/100*float64(p.OvercommitPercent), 1<<62))
}

// placementFacts are the facts of the candidates that a placement will look at first: those
// within the required terms, the preferred terms in their order, then the rest.
func placementFacts(requisite, preferred []*fsmpb.Topology, all []poolCandidate) (facts []*fsmpb.PoolFact) {
	taken := map[string]bool{}
	appendWithin := func(within []*fsmpb.Topology) {
		for _, x := range all {
			if len(facts) == maxPlacementFacts {
				return
			}
			if id := x.fact.GetPoolId(); !taken[id] && matchesAnyTerm(x.topology, within) && matchesAnyTerm(x.topology, requisite) {
				taken[id] = true
				facts = append(facts, x.fact)
			}
		}
	}
	for _, term := range preferred {
		appendWithin([]*fsmpb.Topology{term})
	}
	appendWithin(nil)
	return facts
}

// nodeTerm is the term of one node; none when it is not named.
func nodeTerm(node string) []*fsmpb.Topology {
	if node == "" {
		return nil
	}
	return []*fsmpb.Topology{{Segments: []*fsmpb.Label{{Key: fsm.TopologyKey, Value: node}}}}
}

// matchesAnyTerm tells whether one of the terms holds; no terms are no condition.
func matchesAnyTerm(topology fsm.Topology, terms []*fsmpb.Topology) bool {
	return len(terms) == 0 || slices.ContainsFunc(terms, func(term *fsmpb.Topology) bool {
		for _, l := range term.GetSegments() {
			if !slices.Contains(topology, fsm.Label{Key: l.GetKey(), Value: l.GetValue()}) {
				return false
			}
		}
		return true
	})
}
