package policy

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// FactTable is the telemetry of all pools as facts for placements (S25). The leader's
// monitor replaces it at each poll; on every other member it is empty.
type FactTable struct {
	member  Member
	poller  Poller
	timeout time.Duration // of PollFacts
	// candidates are replaced in one step: a placement without facts would not know that a pool is absent.
	candidates atomic.Pointer[[]poolCandidate]
}

func (t *FactTable) replace(candidates []poolCandidate) { t.candidates.Store(&candidates) }

func (t *FactTable) clear() { t.candidates.Store(nil) }

func (t *FactTable) current() []poolCandidate {
	if p := t.candidates.Load(); p != nil {
		return *p
	}
	return nil
}

// Attach gives a placement the facts of at most 16 candidate pools, and removes
// those that came with it. It never blocks; before a leader's first poll
// in this process there are no facts, and the state alone decides.
func (t *FactTable) Attach(cmd *fsmpb.Command) {
	all := t.current()
	if create := cmd.GetCreateVolume(); create != nil {
		create.Facts = placementFacts(create.GetRequisite(), create.GetPreferred(), all)
	}
	if add := cmd.GetAddReplica(); add != nil {
		add.Facts = placementFacts(nodeTerm(add.GetNodeId()), nil, all)
	}
	if enable := cmd.GetEnableReplication(); enable != nil {
		enable.Facts = placementFacts(nodeTerm(enable.GetPeerNode()), nil, all)
	}
	if expand := cmd.GetExpandVolume(); expand != nil {
		expand.Facts = t.volumeFacts(fsm.VolumeID(expand.GetVolumeId()), all)
	}
	if keep := cmd.GetKeepReplica(); keep != nil {
		keep.Facts = t.volumeFacts(fsm.VolumeID(keep.GetVolumeId()), all)
	}
}

// volumeFacts are those of the pools that a volume is in; none at a feature level whose commands have no field for them.
func (t *FactTable) volumeFacts(id fsm.VolumeID, all []poolCandidate) (facts []*fsmpb.PoolFact) {
	_ = t.member.View(func(state *fsm.State) error { // without a state nothing is known
		v, ok := state.Volume(id)
		if !ok || state.Cluster().FeatureLevel < fsm.Level2 {
			return nil
		}
		for i := range v.Replicas {
			at := slices.IndexFunc(all, func(c poolCandidate) bool { return c.fact.GetPoolId() == string(v.Replicas[i].Pool) })
			if at >= 0 {
				facts = append(facts, all[at].fact)
			}
		}
		return nil
	})
	return facts
}

// PollFacts is a fact of each pool whose host has a session, by polling all members
// now for one interval at most. It works on every member, and leaves the table as it is.
func (t *FactTable) PollFacts(ctx context.Context) []*fsmpb.PoolFact {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	r, err := t.poller.Poll(ctx, true)
	if err != nil {
		return nil
	}
	var facts []*fsmpb.PoolFact
	_ = t.member.View(func(state *fsm.State) error { // without a state there are no pools
		for _, c := range poolCandidates(state, r.Sessions) {
			facts = append(facts, c.fact)
		}
		return nil
	})
	return facts
}
