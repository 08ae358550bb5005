package session

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

func TestANewerSessionReplacesTheOlder(t *testing.T) {
	l := newTestCluster(t, 1)
	node := l.credentials(pki.Node, "n1")
	old := l.openSession(l.members[0], node, &sessionpb.Hello{Register: register("n1")})
	old.nextVolumes()
	for range 2 {
		newer := l.openSession(l.members[0], node, &sessionpb.Hello{Register: register("n1")})
		newer.nextVolumes()
		require.Equal(t, codes.Aborted, status.Code(old.endError()))
		require.Equal(t, 1, l.members[0].server.Sessions())
		old = newer
	}
	l.create(volumeID, "v1")
	require.Len(t, old.nextVolumes().GetVolumes(), 1)
}

// A host that left a controller during its registration may have a newer session by then.
func TestASessionThatEndedBeforeItBeganReplacesNone(t *testing.T) {
	s := NewServer(newTestCluster(t, 1).members[0], nil)
	newer := newLiveSession(t.Context(), register("n1"), 1)
	require.NoError(t, s.addSession(newer))
	cancelled, cancel := context.WithCancel(t.Context())
	older := newLiveSession(cancelled, register("n1"), 1)
	cancel()
	require.Error(t, s.addSession(older))
	require.NoError(t, newer.ctx.Err())
	require.Same(t, newer, s.liveSession("n1"))
}

// A session whose registration takes long does not end the one that the host began meanwhile.
func TestALateSessionEndsNoNewerOne(t *testing.T) {
	l := newTestCluster(t, 1)
	m := l.members[0]
	arrived, proceed := make(chan struct{}), make(chan struct{})
	m.mu.Lock()
	m.committed = func(cmd *fsmpb.Command) {
		if cmd.GetRegisterNode().GetVersion() == "early" {
			close(arrived)
			<-proceed
		}
	}
	m.mu.Unlock()
	early := register("n1")
	early.Version = "early"
	as := l.credentials(pki.Node, "n1")
	first := l.openSession(m, as, &sessionpb.Hello{Register: early})
	<-arrived
	second := l.openSession(m, as, &sessionpb.Hello{Register: register("n1")})
	second.nextWelcome()
	close(proceed)
	require.Equal(t, codes.Aborted, status.Code(first.endError()))
	l.create(volumeID, "v1")
	for len(second.nextVolumes().GetVolumes()) == 0 {
	}
	require.Equal(t, 1, m.server.Sessions())
}
