package raftnode

import (
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

func TestTheRaftListenerAdmitsControllersOnly(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	n := c.add("c1", nil)
	for _, role := range []pki.Role{pki.Node, pki.Admin, pki.Operator, pki.Viewer, pki.Controller} {
		files, err := pki.Issue(c.ca, filepath.Join(c.root, "role-"+string(role)), pki.Identity{Role: role, Name: "x"}, time.Hour)
		require.NoError(t, err)
		creds, err := pki.Load(files)
		require.NoError(t, err)
		for _, proto := range []string{protoRaft, protoMember, protoJoin} {
			if role == pki.Controller {
				require.NoError(t, handshakeAs(t, n.addr, creds, proto, 200*time.Millisecond), proto)
				continue
			}
			err := handshakeAs(t, n.addr, creds, proto, testTimeout)
			require.Error(t, err, "%s over %s", role, proto)
			var timeout net.Error
			require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "%s over %s is refused, not kept waiting", role, proto)
		}
	}
}

// handshakeAs tells whether a listener accepted a certificate: a client learns of a refusal when it
// reads. A listener that sends nothing within the timeout accepted it.
func handshakeAs(t *testing.T, addr string, creds *pki.Credentials, proto string, quiet time.Duration) error {
	config := creds.Client(pki.Controller)
	config.NextProtos = []string{proto}
	conn, err := tls.Dial("tcp", addr, config)
	if err != nil {
		return err
	}
	defer func() { require.NoError(t, conn.Close()) }()
	require.Equal(t, proto, conn.ConnectionState().NegotiatedProtocol)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(quiet)))
	_, err = conn.Read(make([]byte, 1))
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return nil // the listener waits for this end's first message
	}
	return err
}

func TestRemovedMembersExit(t *testing.T) {
	t.Parallel()
	for name, pick := range map[string]func(*testCluster) *testMember{"a follower": pickFollower, "the leader": pickLeader} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newThreeMembers(t, nil)
			removed := pick(c)
			rest := c.others(removed)
			for range 2 {
				retryUnavailable(t, func() error { return rest[0].RemovePeer(testContext(t), removed.id) })
			}
			eventually(t, func() error { return checkExited(removed) })
			require.EqualValues(t, ExitRemoved, removed.exitCode.Load())
			rest[1].mustPropose(t, "we-are-two")
			require.Len(t, rest[0].Peers(), 2)
		})
	}
}

func TestAMemberOnAnotherPortUpdatesItsAddress(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	moved := c.followers()[0]
	moved.crash(t)
	moved.addr = freeAddr()
	require.NoError(t, c.start(moved))
	c.waitReady(3)
	moved.mustPropose(t, "from-the-new-port")
}

func TestNothingIsLeftRunningAfterClose(t *testing.T) {
	before := goroutines()
	c := newThreeMembers(t, nil)
	c.members[0].mustPropose(t, "something")
	for _, n := range c.members {
		for range 2 {
			require.NoError(t, n.Close())
		}
		_, err := n.Propose(t.Context(), registerNode("too-late"))
		require.ErrorIs(t, err, ErrShutdown)
	}
	eventually(t, func() error {
		for id, stack := range goroutines() {
			if _, earlier := before[id]; !earlier && isOfAMember(stack) {
				return errors.New(stack)
			}
		}
		return nil
	})
}

// goroutines are the stacks of all goroutines, by their id.
func goroutines() map[string]string {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	byID := map[string]string{}
	for _, stack := range strings.Split(string(stacks), "\n\n") {
		id, _, _ := strings.Cut(stack, " [")
		byID[id] = stack
	}
	return byID
}

// isOfAMember leaves out calls that Raft does not answer: those that it had not read when it was
// shut down.
func isOfAMember(stack string) bool {
	if strings.Contains(stack, "testing.tRunner") || strings.Contains(stack, "raftnode.await.func") {
		return false
	}
	return slices.ContainsFunc([]string{"hashicorp/raft", "holdfast/raftnode", "google.golang.org/grpc"}, func(part string) bool { return strings.Contains(stack, part) })
}
