package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// maxNonVoters bounds how many members are recorded as non-voters.
const maxNonVoters = 64

// fieldNonVoters precedes them in what is hashed of the cluster.
const fieldNonVoters = 130

// IsNonVoter tells whether the Raft member of that id is not to vote, by an operator's decision.
func (c *Cluster) IsNonVoter(memberID string) bool {
	_, found := slices.BinarySearch(c.NonVoters, memberID)
	return found
}

// applySetMemberRole records whether a member is to vote. Who votes is Raft's configuration; this is what a leader asks
// before it promotes a member that has caught up, so that one that an operator demoted stays a non-voter under every leader.
func applySetMemberRole(s *State, _ Meta, c *fsmpb.SetMemberRole) (*fsmpb.Outcome, *Rejection) {
	if rej := checkID("member id", c.GetMemberId()); rej != nil {
		return nil, rej
	}
	i, recorded := slices.BinarySearch(s.cluster.NonVoters, c.GetMemberId())
	switch {
	case recorded == c.GetNonVoter():
		return &fsmpb.Outcome{}, nil
	case recorded:
		s.cluster.NonVoters = slices.Delete(slices.Clone(s.cluster.NonVoters), i, i+1)
	case len(s.cluster.NonVoters) >= maxNonVoters:
		return nil, Reject(Precondition, "demote member %s: %d members are recorded as non-voters already: promote those that are gone", c.GetMemberId(), maxNonVoters)
	default:
		s.cluster.NonVoters = slices.Insert(slices.Clone(s.cluster.NonVoters), i, c.GetMemberId())
	}
	if len(s.cluster.NonVoters) == 0 {
		s.cluster.NonVoters = nil
	}
	s.writes++
	return &fsmpb.Outcome{}, nil
}

// hashNonVoters comes after the members, whose number is written where there are non-voters, as those of the skipped
// entries and the sweeps are where there are members.
func hashNonVoters(e *encoder, c *Cluster) {
	if len(c.NonVoters) == 0 {
		return
	}
	hashAbsentLists(e, c)
	e.u64(fieldNonVoters)
	e.u64(uint64(len(c.NonVoters)))
	for _, id := range c.NonVoters {
		e.str(id)
	}
}

// hashAbsentLists writes the lengths of the lists before what comes next, where they have none.
func hashAbsentLists(e *encoder, c *Cluster) {
	if len(c.Members) > 0 {
		return
	}
	if len(c.Sweeps) == 0 {
		if len(c.Skipped) == 0 {
			e.u64(0)
		}
		e.u64(0)
	}
	e.u64(0)
}

// checkNonVoters: they are in order, each once.
func (s *State) checkNonVoters() error {
	for i := 1; i < len(s.cluster.NonVoters); i++ {
		if s.cluster.NonVoters[i-1] >= s.cluster.NonVoters[i] {
			return violated("S141", "member %s is recorded as a non-voter twice, or out of order", s.cluster.NonVoters[i])
		}
	}
	return nil
}
