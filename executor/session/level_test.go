package session

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// level2Report is a report that requires feature level 2.
func level2Report(node string) *fsmpb.Command {
	return &fsmpb.Command{SchemaVersion: fsm.Level2, Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: node, HostId: "host-" + node, BootId: "boot-1"}}}
}

// lastLevel is the feature level that the host received last.
func (n *testHost) lastLevel() uint32 {
	got := n.received()
	if len(got) == 0 {
		return 0
	}
	return got[len(got)-1].FeatureLevel
}

// S72: a command above the feature level fails at once in a cluster of level 1, with an error
// that is not retried, and reaches no controller. When the level rises the host receives it,
// registers again, and may propose the command.
func TestS72_AHostProposesOnlyWhatTheClustersLevelKnows(t *testing.T) {
	l := newTestClusterAtLevel(t, 2, fsm.Level1)
	n := l.startHost("n1", l.members...)
	eventually(t, "the host receives the level", func() bool { return n.lastLevel() == fsm.Level1 })
	for range 2 {
		_, err := n.client.Propose(t.Context(), level2Report("n1"))
		var rej *fsm.Rejection
		require.True(t, errors.As(err, &rej), "%v", err)
		require.Equal(t, fsm.Unsupported, rej.Reason)
	}
	registered := len(l.members[0].requests()) + len(l.members[1].requests())
	l.mustApply("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_SetFeatureLevel{SetFeatureLevel: &fsmpb.SetFeatureLevel{Level: fsm.Level2}}})
	eventually(t, "the host receives the new level", func() bool { return n.lastLevel() == fsm.Level2 })
	eventually(t, "the host registers again", func() bool {
		return len(l.members[0].requests())+len(l.members[1].requests()) > registered && n.client.Connected()
	})
	_, err := n.client.Propose(t.Context(), level2Report("n1"))
	require.NoError(t, err)
}

// S72: a controller that sends no level is of a build from before there were levels.
func TestS72_AControllerThatSendsNoLevelIsOfLevel1(t *testing.T) {
	for value, want := range map[string]uint32{"": 1, "0": 1, "x": 1, "1": 1, "2": 2, "7": 7} {
		header := metadata.MD{}
		if value != "" {
			header.Set(levelHeaderKey, value)
		}
		for range 2 {
			require.Equal(t, want, levelFromHeader(header), "%q", value)
		}
	}
}

// S72: a controller that restarts sends no level until it has read its log. A host that knows the
// level keeps it, since it only rises; an update replaces it.
func TestS72_AControllerThatDoesNotKnowTheLevelYetDoesNotLowerIt(t *testing.T) {
	for name, header := range map[string]metadata.MD{"none": {}, "an older one": metadata.Pairs(levelHeaderKey, "1")} {
		t.Run(name, func(t *testing.T) {
			c := &Client{}
			require.Equal(t, fsm.Level1, c.noteHeaderLevel(header))
			require.Error(t, c.checkLevel(level2Report("n1")))
			c.setLevel(fsm.Level2)
			require.NoError(t, c.checkLevel(level2Report("n1")))
			require.Equal(t, fsm.Level1, c.noteHeaderLevel(header), "it registers with what this controller says")
			require.NoError(t, c.checkLevel(level2Report("n1")))
			c.setLevel(fsm.Level1)
			require.Error(t, c.checkLevel(level2Report("n1")), "another cluster, or one that was restored")
		})
	}
}

// S72: a host that is too old for the cluster is told to be upgraded, not to be replaced.
func TestS72_ATooOldHostIsToldToBeUpgraded(t *testing.T) {
	err := registrationError("n1", fsm.Reject(fsm.Unsupported, "register node n1: it understands feature level 1, the cluster runs at 2: upgrade it"))
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.ErrorContains(t, err, "upgrade it")
	require.NotContains(t, err.Error(), "replace")
}

// S57, S72: a controller that learned the cluster's level after it had sent its header records no registration that was
// made for a lower one: it would lack the addresses by which a fence finds the host.
func TestS57_S72_ARegistrationForALowerLevelIsNotRecorded(t *testing.T) {
	l := newTestCluster(t, 2)
	node := l.credentials(pki.Node, "n1")
	l.openSession(l.members[0], node, &sessionpb.Hello{Register: register("n1")}).nextVolumes()
	starting := l.members[1]
	starting.server.timing.catchUpTimeout = time.Minute
	for range 2 {
		starting.restart()
		session := l.openSession(starting, node, &sessionpb.Hello{Register: register("n1"), Seen: &fsmpb.Epoch{Incarnation: 1, Index: 2}})
		header, err := session.stream.Header()
		require.NoError(t, err)
		require.Equal(t, fsm.Level1, levelFromHeader(header))
		starting.setLag(false)
		err = session.endError()
		require.Equal(t, codes.Unavailable, status.Code(err), err)
		require.ErrorContains(t, err, fmt.Sprint("feature level ", fsm.MaxFeatureLevel))
	}
	require.Empty(t, starting.requests(), "nothing was proposed")
	l.openSession(starting, node, &sessionpb.Hello{Register: register("n1")}).nextVolumes()
	require.NotEmpty(t, starting.requests())
}

// restart forgets what the member has applied, until it does not lag any more.
func (m *testMember) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.lag = fsm.New(), true
}
