package policy

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// maxPlacementFacts bounds the candidate pools of which a placement carries facts (S25).
const maxPlacementFacts = 16

// poolCandidate is a pool with telemetry, and what a placement decides by.
type poolCandidate struct {
	fact       *fsmpb.PoolFact
	topology   fsm.Topology
	unreserved int64 // bytes
}

// poolCandidates joins the sessions' telemetry with the state's pools, in the order in
// which placement prefers them: most unreserved bytes first.
func poolCandidates(state *fsm.State, sessions []*sessionpb.SessionFacts) []poolCandidate {
	var all []poolCandidate
	for _, s := range sessions {
		node, ok := state.Node(fsm.NodeID(s.GetNodeId()))
		if !ok || string(node.Host) != s.GetHostId() {
			continue // a host reports about its own record only (S17, S20)
		}
		for _, p := range s.GetTelemetry().GetPools() {
			if c, ok := newPoolCandidate(state, node, p, s.GetIndex()); ok {
				all = append(all, c)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b poolCandidate) int {
		// Of two sessions' telemetry of one pool, the newer comes first.
		return cmp.Or(cmp.Compare(b.unreserved, a.unreserved), cmp.Compare(a.fact.GetPoolId(), b.fact.GetPoolId()),
			cmp.Compare(b.fact.GetIndex(), a.fact.GetIndex()))
	})
	return all
}

func newPoolCandidate(state *fsm.State, node *fsm.Node, telemetry *sessionpb.PoolFacts, index uint64) (poolCandidate, bool) {
	i := slices.IndexFunc(node.Pools, func(p fsm.Pool) bool { return string(p.ID) == telemetry.GetId() })
	if i < 0 {
		return poolCandidate{}, false
	}
	pool := &node.Pools[i]
	reserved, _ := state.PoolUse(pool.ID)
	free := telemetry.GetFree()
	if telemetry.GetAbsent() {
		free = -1 // below every reserve: nothing is placed in an absent pool (S12)
	}
	return poolCandidate{
		fact:       &fsmpb.PoolFact{PoolId: telemetry.GetId(), FreeBytes: free, Index: index},
		topology:   node.Topology(),
		unreserved: overcommitLimit(pool) - reserved,
	}, true
}

// overcommitLimit is the capacity times the overcommit ratio in bytes, rounded: it serves for sorting only.
func overcommitLimit(p *fsm.Pool) int64 {
	return int64(min(float64(p.Capacity)/100*float64(p.OvercommitPercent), 1<<62))
}

// placementFacts are the facts of the candidates that a placement will consider first: of those
// within the requisite terms those of the preferred terms in their order, then the rest.
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

// nodeTerm is the topology term of one node; none without a name.
func nodeTerm(node string) []*fsmpb.Topology {
	if node == "" {
		return nil
	}
	return []*fsmpb.Topology{{Segments: []*fsmpb.Label{{Key: fsm.TopologyKey, Value: node}}}}
}

// matchesAnyTerm tells whether the topology matches one of the terms; without terms every one does.
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
