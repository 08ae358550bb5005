package raftnode

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// wipe ends a member, deletes its data directory and starts it again at its address, as a controller
// that joins through the others.
func (c *testCluster) wipe(t *testing.T, n *testMember) {
	t.Helper()
	n.crash(t)
	require.NoError(t, os.RemoveAll(n.cfg.Dir))
	n.cfg.Bootstrap, n.cfg.Join = false, nil
	for _, o := range c.others(n) {
		n.cfg.Join = append(n.cfg.Join, o.addr)
	}
	old := n.id
	require.NoError(t, c.start(n))
	require.NotEqual(t, old, n.id)
}

// waitMisdirected waits until the member has refused that many connections whose target is another member.
func (n *testMember) waitMisdirected(t *testing.T, times uint64) {
	t.Helper()
	from := n.mux.misdirected.Load()
	eventually(t, func() error {
		if got := n.mux.misdirected.Load(); got < from+times {
			return fmt.Errorf("%d connections were refused", got-from)
		}
		return nil
	})
}

func TestS68_AWipedMemberElectsNobody(t *testing.T) {
	forEachLogStore(t, func(t *testing.T, kind string) {
		c := newThreeMembers(t, func(cfg *Config) { cfg.LogStore = kind })
		leader := c.leader()
		behind, wiped := c.others(leader)[0], c.others(leader)[1]
		behind.crash(t)
		leader.mustPropose(t, "acknowledged")
		c.crashAndWipe(t, wiped, leader)
		require.NoError(t, c.start(behind))
		wiped.waitMisdirected(t, 5)
		for _, n := range []*testMember{behind, wiped} {
			leading, _, _ := n.Leadership()
			require.False(t, leading, "%s leads by the vote of an empty log", n.cfg.Name)
			require.Error(t, n.Ready())
		}
		require.NoError(t, c.start(leader))
		for _, n := range []*testMember{leader, behind} {
			require.True(t, n.hasNode(t, "acknowledged"), "%s lost an acknowledged command", n.cfg.Name)
		}
	})
}

// crashAndWipe crashes one member, then wipes another.
func (c *testCluster) crashAndWipe(t *testing.T, wiped, down *testMember) {
	t.Helper()
	down.crash(t)
	c.wipe(t, wiped)
}

func TestS68_AWipedMemberServesAndAcknowledgesNothing(t *testing.T) {
	skipIfShort(t)
	forEachLogStore(t, func(t *testing.T, kind string) {
		c := newThreeMembers(t, func(cfg *Config) { cfg.LogStore = kind })
		leader := c.leader()
		wiped, other := c.others(leader)[0], c.others(leader)[1]
		c.wipe(t, wiped)
		leader.mustPropose(t, "by-the-two-that-are-left")
		wiped.waitMisdirected(t, 3)
		wiped.waitNotReady(t, "not in the cluster yet")
		_, err := wiped.Read(testContext(t), func(*fsm.State) error { return errors.New("must not be called") })
		require.ErrorIs(t, err, ErrNotLeader)
		_, err = wiped.Propose(testContext(t), registerNode("through-a-stranger"))
		require.ErrorIs(t, err, ErrNotLeader)
		other.crash(t)
		leader.requireNoCommit(t)
		require.NoError(t, c.start(other))
		leader.mustPropose(t, "with-a-quorum-of-members")
	})
}

// requireNoCommit asserts that no command is committed: Propose fails after the leaderless timeout, or
// as soon as the member steps down.
func (n *testMember) requireNoCommit(t *testing.T) {
	t.Helper()
	_, err := n.Propose(testContext(t), registerNode("without-a-quorum"))
	require.True(t, IsUnavailable(err), "%v", err)
}

func TestS68_ARemovedMembersIDIsNotUsedAgain(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	c := newThreeMembers(t, nil)
	leader := c.leader()
	wiped := c.others(leader)[0]
	old := wiped.id
	c.wipe(t, wiped)
	eventually(t, func() error {
		if err := wiped.Ready(); err == nil || !strings.Contains(err.Error(), "holdfast members replace "+old) {
			return fmt.Errorf("it does not say what to do: %w", err)
		}
		return nil
	})
	retryUnavailable(t, func() error { return leader.RemovePeer(testContext(t), old) })
	c.waitReady(3)
	wiped.mustPropose(t, "by-the-new-one")
	requireSameHash(t, c.members...)
}

func TestS68_ConnectionsAreForTheTargetOnly(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	leader, other := c.leader(), c.followers()[0]
	cluster := leader.storage.clusterID()
	raw := func(protocol string, target *raftpb.Target) error {
		conn, err := leader.Member.cfg.dial(testContext(t), other.addr)
		require.NoError(t, err)
		secured, err := tlsClient(testContext(t), conn, leader.Member.cfg.Credentials, target, protocol)
		if err == nil {
			require.NoError(t, secured.Close())
		}
		return err
	}
	for name, tc := range map[string]struct {
		target *raftpb.Target
		want   string
	}{
		"the member itself":        {&raftpb.Target{ClusterId: cluster, MemberId: other.id}, ""},
		"another member":           {&raftpb.Target{ClusterId: cluster, MemberId: leader.id}, "this is member " + other.id},
		"another cluster":          {&raftpb.Target{ClusterId: "another", MemberId: other.id}, "belongs to cluster " + cluster},
		"no cluster":               {&raftpb.Target{MemberId: other.id}, "belongs to cluster " + cluster},
		"nobody":                   {&raftpb.Target{}, "this is member " + other.id},
		"a name that is too large": {&raftpb.Target{MemberId: string(make([]byte, 2000))}, "too large"},
	} {
		for _, protocol := range []string{protoRaft, protoMember} {
			t.Run(name+" over "+protocol, func(t *testing.T) {
				for range 2 {
					err := raw(protocol, tc.target)
					if tc.want == "" {
						require.NoError(t, err)
						continue
					}
					require.ErrorContains(t, err, tc.want)
				}
			})
		}
	}
}

func TestS68_AnUnknownMemberIsAskedForJoinAndStatusOnly(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	leader, other := c.leader(), c.followers()[0]
	peers := newPeers(other.core)
	defer func() { require.NoError(t, peers.close()) }()
	conn, err := peers.dial("", leader.addr)
	require.NoError(t, err)
	client := raftpb.NewMemberClient(conn)
	for range 2 {
		s, err := client.Status(testContext(t), &raftpb.StatusRequest{})
		require.NoError(t, err)
		require.Equal(t, leader.id, s.GetMemberId())
		require.Equal(t, leader.storage.clusterID(), s.GetClusterId())
		_, err = client.ReadIndex(testContext(t), &raftpb.ReadIndexRequest{})
		require.Equal(t, codes.PermissionDenied, status.Code(err))
		_, err = client.Remove(testContext(t), &raftpb.RemoveRequest{MemberId: other.id})
		require.Equal(t, codes.PermissionDenied, status.Code(err))
	}
}

func TestS68_AMemberWithoutAConfigurationGivesNoVote(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	leader := c.leader()
	wiped := c.others(leader)[0]
	c.wipe(t, wiped)
	// Also under its own new id, as a member that became a voter before it knew the cluster.
	require.NoError(t, wiped.recordClusterID(leader.storage.clusterID()))
	inner := newTransport(leader.mux.raftListener, testTimeout, &leader.Member.cfg)
	defer func() { require.NoError(t, inner.NetworkTransport.Close()) }()
	for range 2 {
		err := inner.RequestVote(raft.ServerID(wiped.id), raft.ServerAddress(wiped.addr), &raft.RequestVoteRequest{Term: 1 << 20}, new(raft.RequestVoteResponse))
		require.ErrorContains(t, err, "it gives no vote")
	}
}

// S68: a process on a copy of a data directory does not vote beside the original, is not elected, and
// does not serve. When the original is gone it is the member.
func TestS68_ACopyOfADataFolderGivesNoVote(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	leader := c.leader()
	original := c.others(leader)[0]
	require.NoError(t, original.Close())
	duplicate := c.prepare("copy", nil)
	require.NoError(t, exec.Command("cp", "-a", original.cfg.Dir, duplicate.cfg.Dir).Run())
	require.NoError(t, c.start(original))
	require.NoError(t, c.start(duplicate))
	require.Equal(t, original.id, duplicate.id)
	duplicate.waitNotReady(t, "on a copy of the data folder")
	inner := newTransport(leader.mux.raftListener, testTimeout, &leader.Member.cfg)
	defer func() { require.NoError(t, inner.NetworkTransport.Close()) }()
	request := &raft.RequestVoteRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(leader.id), Addr: []byte(leader.addr)},
		Term:      1 << 20, LastLogTerm: 1 << 20, LastLogIndex: 1 << 20, LeadershipTransfer: true,
	}
	for range 2 {
		resp := new(raft.RequestVoteResponse)
		err := inner.RequestVote(raft.ServerID(duplicate.id), raft.ServerAddress(duplicate.addr), request, resp)
		require.ErrorContains(t, err, "it gives no vote", "granted: %v", resp.Granted)
		err = duplicate.transport.RequestVote(raft.ServerID(leader.id), raft.ServerAddress(leader.addr), &raft.RequestVoteRequest{Term: 1}, new(raft.RequestVoteResponse))
		require.ErrorContains(t, err, "it gives no vote")
		require.Error(t, duplicate.joiner.checkAdmitted())
	}
	require.NoError(t, original.stop())
	eventually(t, duplicate.Ready)
	duplicate.mustPropose(t, "from-the-copy")
}

// dialUntargeted dials without a target, as a build of level 1 does, and tells whether it was accepted.
func dialUntargeted(t *testing.T, from, to *testMember, quiet time.Duration) bool {
	t.Helper()
	return handshakeAs(t, to.addr, from.Member.cfg.Credentials, protoRaft1, quiet) == nil
}

func TestS68_UntargetedConnectionsAreOfLevel1(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	for level, want := range map[uint32]bool{fsm.Level1: true, fsm.Level2: false} {
		t.Run(fmt.Sprintf("level %d", level), func(t *testing.T) {
			t.Parallel()
			c := newThreeMembers(t, func(cfg *Config) { cfg.bootstrapLevel = level })
			leader := c.leader()
			member, wiped := c.others(leader)[0], c.others(leader)[1]
			c.wipe(t, wiped)
			wiped.waitNotReady(t, "not in the cluster yet")
			for range 2 {
				silent := testTimeout // a refusal may come late
				if want {
					silent = 200 * time.Millisecond
				}
				require.Equal(t, want, dialUntargeted(t, leader, member, silent))
				require.False(t, dialUntargeted(t, leader, wiped, testTimeout), "a wiped member takes no connection that is meant for what it was")
			}
		})
	}
}

func TestS68_OpenUntargetedConnectionsEndWithLevel1(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, func(cfg *Config) { cfg.bootstrapLevel = fsm.Level1 })
	n := c.add("c1", nil)
	c.waitReady(1)
	config := n.Member.cfg.Credentials.Client("controller")
	config.NextProtos = []string{protoRaft1}
	conn, err := tls.Dial("tcp", n.addr, config)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	retryUnavailable(t, func() error {
		_, err := n.Propose(testContext(t), &fsmpb.Command{Actor: "admin/a", Body: &fsmpb.Command_SetFeatureLevel{SetFeatureLevel: &fsmpb.SetFeatureLevel{Level: fsm.Level2}}})
		return err
	})
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(testTimeout)))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}
