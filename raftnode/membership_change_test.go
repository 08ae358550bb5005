package raftnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// S141: a voter is removed only while the others are a quorum without it.
func TestAVoterIsRemovedOnlyIfTheOthersKeepAQuorum(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	leader := c.leader()
	dead, live := c.others(leader)[0], c.others(leader)[1]
	dead.crash(t)
	for range 2 {
		for _, through := range []*testMember{leader, live} {
			requireRefused(t, func() error { return through.RemovePeer(testContext(t), live.id) }) // one of two voters would be left
			requireRefused(t, func() error { return through.RemovePeer(testContext(t), leader.id) })
		}
	}
	require.Len(t, leader.Peers(), 3)
	eventually(t, func() error { return live.RemovePeer(testContext(t), dead.id) })
	eventually(t, func() error { return leader.RemovePeer(testContext(t), dead.id) }) // repeated
	leader.mustPropose(t, "by-two")
}

// S141: the membership changes by one member at a time.
func TestNoVoterIsRemovedWhileAMemberCatchesUp(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	leader := c.leader()
	follower := c.others(leader)[0]
	late := c.prepare("c4", func(cfg *Config) { cfg.Join = []string{leader.addr} })
	require.NoError(t, c.start(late))
	eventually(t, func() error {
		if _, in := leader.serverOf(late.id); !in {
			return errors.New("not taken in yet")
		}
		return nil
	})
	late.crash(t) // before it is a voter, or after: then it is one of four voters
	err := untilAnswered(t, func() error { return leader.RemovePeer(testContext(t), follower.id) })
	if !errors.Is(err, ErrRefused) {
		require.NoError(t, err)
		eventually(t, func() error {
			if s, _ := leader.serverOf(late.id); s.Suffrage != raft.Voter {
				return errors.New("removed while the new member is no voter")
			}
			return nil
		})
	}
	eventually(t, func() error { return leader.RemovePeer(testContext(t), late.id) })
	eventually(t, func() error { return leader.RemovePeer(testContext(t), follower.id) })
}

func TestAMemberIsAddedUnderTheIDAtItsAddress(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	c := newThreeMembers(t, nil)
	other := c.followers()[0]
	// It knows only an address where nobody listens, so it cannot request to join by itself.
	joiner := c.prepare("c4", func(cfg *Config) { cfg.Join = []string{"127.0.0.1:1"} })
	require.NoError(t, c.start(joiner))
	requireRefused(t, func() error { return other.AddPeer(testContext(t), other.id, joiner.addr) })
	requireRefused(t, func() error { return other.AddPeer(testContext(t), joiner.id, c.leader().addr) })
	for range 2 { // the second is a retry
		retryUnavailable(t, func() error { return other.AddPeer(testContext(t), joiner.id, joiner.addr) })
	}
	c.waitReady(4)
	require.True(t, joiner.hasNode(t, "nobody") == false)
	requireSameHash(t, c.members...)
}

func TestS68_ACopyOfADataFolderIsNoMember(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	c := newThreeMembers(t, nil)
	original := c.followers()[0]
	original.crash(t)
	copied := c.prepare("copy", nil)
	copied.files, copied.cfg.Name = original.files, original.cfg.Name
	require.NoError(t, exec.Command("cp", "-a", original.cfg.Dir, copied.cfg.Dir).Run())
	require.NoError(t, c.start(original))
	c.members = c.others(copied)
	c.waitReady(3)
	require.NoError(t, c.start(copied))
	copied.waitNotReady(t, "member "+original.id+" runs at "+original.addr+" too")
	original.mustPropose(t, "by-the-original")
	requireSameHash(t, c.members...)
}

// TestMembershipChangesSurviveTheLeader ends the leader in the middle of each membership change; the
// same change, retried at another member, completes it.
func TestMembershipChangesSurviveTheLeader(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	for name, change := range map[string]func(context.Context, *testMember, *testMember) error{
		"remove": func(ctx context.Context, at, gone *testMember) error { return at.RemovePeer(ctx, gone.id) },
		"add": func(ctx context.Context, at, next *testMember) error {
			return at.AddPeer(ctx, next.id, next.addr)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, nil)
			for i := range 5 {
				c.add(fmt.Sprintf("c%d", i+1), nil)
			}
			c.waitReady(5)
			leader := c.leader()
			rest := c.others(leader)
			subject := rest[0]
			if name == "add" {
				subject = c.prepare("c6", func(cfg *Config) { cfg.Join = []string{"127.0.0.1:1"} })
				require.NoError(t, c.start(subject))
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = change(testContext(t), leader, subject) // its result does not matter
			}()
			leader.crash(t)
			<-ended
			eventually(t, func() error { return change(testContext(t), rest[1], subject) })
			rest[1].mustPropose(t, "after-the-change")
			eventually(t, func() error {
				_, in := rest[2].serverOf(subject.id)
				if in != (name == "add") {
					return fmt.Errorf("it is in the configuration: %t", in)
				}
				return nil
			})
			require.NoError(t, c.start(leader))
			require.True(t, leader.hasNode(t, "after-the-change"))
			if name == "remove" {
				eventually(t, func() error { return checkExited(subject) })
			}
		})
	}
}

func TestADeadMemberIsReplacedUnderLoad(t *testing.T) {
	forEachLogStore(t, func(t *testing.T, kind string) {
		c := newThreeMembers(t, func(cfg *Config) { cfg.LogStore = kind })
		dead := c.followers()[0]
		old := dead.id
		dead.crash(t)
		require.NoError(t, os.RemoveAll(dead.cfg.Dir))
		dead.cfg.Bootstrap, dead.cfg.Join = false, nil
		for _, o := range c.others(dead) {
			dead.cfg.Join = append(dead.cfg.Join, o.addr)
		}
		rest, stop, n := c.others(dead), make(chan struct{}), 0
		var load sync.WaitGroup
		load.Go(func() {
			for ; ; n++ {
				select {
				case <-stop:
					return
				default:
					rest[n%2].mustPropose(t, fmt.Sprintf("load-%d", n))
				}
			}
		})
		end := sync.OnceFunc(func() { close(stop); load.Wait() })
		t.Cleanup(end) // goroutines that may fail the test must not outlive it
		require.NoError(t, c.start(dead))
		dead.waitNotReady(t, "holdfast members replace "+old)
		eventually(t, func() error { return rest[0].RemovePeer(testContext(t), old) })
		c.waitReady(3)
		end()
		for i := range n {
			require.True(t, dead.hasNode(t, fmt.Sprintf("load-%d", i)))
		}
		requireSameHash(t, c.members...)
	})
}

func TestJoinIsRefusedOrRetriable(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	n := c.add("c1", nil)
	c.waitReady(1)
	for name, tc := range map[string]struct {
		req  *raftpb.JoinRequest
		want string
	}{
		"without an id":      {&raftpb.JoinRequest{RaftAddr: "x:1"}, "with an id and an address"},
		"of another cluster": {&raftpb.JoinRequest{MemberId: "m", RaftAddr: "x:1", ClusterId: "other"}, "give it an empty data folder"},
		"of an older build":  {&raftpb.JoinRequest{MemberId: "m", RaftAddr: "x:1"}, "upgrade it"},
	} {
		for range 2 {
			_, err := n.membership.acceptJoin(testContext(t), tc.req)
			require.ErrorIs(t, err, ErrRefused, name)
			require.ErrorContains(t, err, tc.want, name)
		}
	}
}
