package session

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
)

func says(text string, err error) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return []byte(text), err }
}

func TestHostsAreAskedAboutThemselvesThroughWhicheverMemberHasTheSession(t *testing.T) {
	l := newTestCluster(t, 3)
	members := l.newMembers()
	n := l.newHost("n1", l.members[1].api.addr)
	n.client.HostFacts = func(_ context.Context, r Reachability) ([]byte, error) { return json.Marshal(r) }
	n.run(t)
	older := l.startHost("n2", l.members[2])
	failing := l.newHost("n3", l.members[0].api.addr)
	failing.client.HostFacts = func(context.Context, Reachability) ([]byte, error) { return nil, errors.New("its disk is gone") }
	failing.run(t)
	for _, host := range []*testHost{n, older, failing} {
		eventually(t, "the session is up", host.client.Connected)
	}
	whom := Reachability{Controllers: []string{"c1:9802"}, Hosts: []string{"10.0.0.2"}, Port: 65535}
	for _, m := range members {
		for range 2 {
			facts, err := m.HostFacts(t.Context(), "n1", whom)
			require.NoError(t, err)
			require.JSONEq(t, `{"Controllers":["c1:9802"],"Hosts":["10.0.0.2"],"Port":65535}`, string(facts))
			_, err = m.HostFacts(t.Context(), "n2", whom)
			require.ErrorIs(t, err, ErrOlderBuild, "a host of an older build is not asked")
			_, err = m.HostFacts(t.Context(), "n3", whom)
			require.ErrorContains(t, err, "its disk is gone")
			_, err = m.HostFacts(t.Context(), "n7", whom)
			require.Equal(t, codes.Unavailable, status.Code(err), "no host of that name has a session")
		}
	}
}

func TestMembersAreAskedAboutTheirOwnHosts(t *testing.T) {
	l := newTestCluster(t, 2)
	members := l.newMembers()
	l.members[0].server.SetOwnFacts(says(`{"hostname":"c1"}`, nil))
	l.members[1].server.SetOwnFacts(says(`{"hostname":"c2"}`, nil))
	peers, err := members[0].server.member.Peers(t.Context())
	require.NoError(t, err)
	for range 2 {
		facts, err := members[0].MemberFacts(t.Context(), "", true)
		require.NoError(t, err)
		require.JSONEq(t, `{"hostname":"c1"}`, string(facts))
		facts, err = members[0].MemberFacts(t.Context(), peers[0].ID, false)
		require.NoError(t, err)
		require.JSONEq(t, `{"hostname":"c2"}`, string(facts))
		_, err = members[0].MemberFacts(t.Context(), "nobody", false)
		require.ErrorContains(t, err, "not in the configuration")
	}
	_, err = factsOf("c9", nil, status.Error(codes.Unimplemented, "unknown method HostFacts"))
	require.ErrorIs(t, err, ErrOlderBuild)
}

func TestOnlyControllersAskEachOtherAboutHosts(t *testing.T) {
	l := newTestCluster(t, 1)
	p := &peerService{server: l.members[0].server}
	_, err := p.HostFacts(t.Context(), &sessionpb.HostFactsRequest{})
	require.Error(t, err)
}
