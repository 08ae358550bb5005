package raftnode

import (
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// S141: a member without a vote gets one after three probes in a row that found it near; one that does not answer, that lags or that is
// another one begins to be counted again.
func TestS141_ANonVoterThatStaysNearGetsAVote(t *testing.T) {
	const index, near = 1000, 1000 - maxPromotionLag
	servers := []raft.Server{{ID: "v"}, {ID: "n", Suffrage: raft.Nonvoter}}
	at := func(id string, applied uint64) map[raft.ServerID]memberStatus {
		return map[raft.ServerID]memberStatus{
			"v": {StatusResponse: &raftpb.StatusResponse{MemberId: "v", AppliedIndex: index}},
			"n": {StatusResponse: &raftpb.StatusResponse{MemberId: id, AppliedIndex: applied}},
		}
	}
	for name, away := range map[string]map[raft.ServerID]memberStatus{"silent": nil, "too far": at("n", near-1), "another one": at("m", index)} {
		t.Run(name, func(t *testing.T) {
			d := &leaderDuties{caughtUpProbes: map[string]int{}}
			for i, answers := range []map[raft.ServerID]memberStatus{at("n", near), at("n", index), away, at("n", near), at("n", near), at("n", near)} {
				s, ok := d.nextVoter(servers, answers, index)
				require.Equal(t, i == 5, ok, "probe %d", i+1)
				require.Equal(t, ok, s.ID == "n")
			}
		})
	}
}
