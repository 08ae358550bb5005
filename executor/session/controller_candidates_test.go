package session

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// What could be imported is asked through whichever member has the session. A host of a build that lists everything instead
// is not taken for one that has nothing.
func TestCandidatesAreAskedThroughWhicheverMemberHasTheSession(t *testing.T) {
	l := newTestCluster(t, 2)
	members := l.newMembers()
	n := l.startHost("n1", l.members[1])
	eventually(t, "the session is up", n.client.Connected)
	answer := executor.Inventory{Candidates: true, Items: []executor.InventoryItem{{Kind: executor.KindCandidate, Path: "/dev/dm-4", Candidate: "c"}}}
	n.setInventory(func() (executor.Inventory, error) { return answer, nil })
	for _, m := range members {
		for range 2 {
			got, err := m.Candidates(t.Context(), "n1")
			require.NoError(t, err)
			require.Equal(t, answer.Items, got)
		}
	}
	answer = executor.Inventory{Items: []executor.InventoryItem{{Kind: executor.KindImage, Volume: volumeID}}}
	for _, m := range members {
		_, err := m.Candidates(t.Context(), "n1")
		var rej *fsm.Rejection
		require.True(t, errors.As(err, &rej) && rej.Reason == fsm.Unsupported, err)
		require.ErrorContains(t, err, "upgrade it")
	}
}

// A host gives up before its controller does, so that its reason arrives, and is given longer to read every device.
func TestAHostIsGivenLessTimeThanItsController(t *testing.T) {
	l := newTestCluster(t, 1)
	members := l.newMembers()
	n := l.startHost("n1", l.members[0])
	eventually(t, "the session is up", n.client.Connected)
	n.setInventory(func() (executor.Inventory, error) { return executor.Inventory{Candidates: true}, nil })
	for _, candidates := range []bool{false, true} {
		asked := time.Now()
		_, err := members[0].inventory(t.Context(), &sessionpb.InventoryRequest{NodeId: "n1", Candidates: candidates})
		require.NoError(t, err)
		require.WithinRange(t, n.deadline, asked.Add(queryTimeout(candidates)-answerMargin), time.Now().Add(queryTimeout(candidates)-answerMargin))
	}
	require.Greater(t, candidatesTimeout-answerMargin, inventoryTimeout)
}
