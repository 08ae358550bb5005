package raftnode

import (
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// A voter that answers and is not ready does not make a quorum, as the plan of a removal has it.
func TestARemovalLeavesAQuorumThatIsReady(t *testing.T) {
	mb := &membership{core: &core{id: "a"}}
	servers := []raft.Server{{ID: "a", Suffrage: raft.Voter}, {ID: "b", Suffrage: raft.Voter}, {ID: "c", Suffrage: raft.Voter}}
	ready, full := memberStatus{StatusResponse: &raftpb.StatusResponse{}}, memberStatus{StatusResponse: &raftpb.StatusResponse{Trouble: "the disk is full"}}
	for name, tc := range map[string]struct {
		answers map[raft.ServerID]memberStatus
		want    string
	}{
		"the others are ready":        {map[raft.ServerID]memberStatus{"b": ready, "c": ready}, ""},
		"the leaving one is not":      {map[raft.ServerID]memberStatus{"b": ready, "c": full}, ""},
		"another one is not":          {map[raft.ServerID]memberStatus{"b": full, "c": ready}, "only 1 answer and are ready"},
		"another one does not answer": {map[raft.ServerID]memberStatus{"c": ready}, "only 1 answer and are ready"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				err := mb.checkQuorumWithout("c", servers, tc.answers)
				if tc.want == "" {
					require.NoError(t, err)
					continue
				}
				require.ErrorIs(t, err, ErrRefused)
				require.ErrorContains(t, err, tc.want)
			}
		})
	}
}
