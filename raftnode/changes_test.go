package raftnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// S141: a voter leaves only while the others are a quorum without it.
func TestAVoterIsRemovedOnlyWhereTheOthersGoOn(t *testing.T) {
	t.Parallel()
	c := three(t, nil)
	leader := c.leader()
	dead, live := c.but(leader)[0], c.but(leader)[1]
	dead.crash(t)
	for range 2 {
		for _, through := range []*node{leader, live} {
			refuses(t, func() error { return through.RemovePeer(within(t), live.id) }) // one of two would be left
			refuses(t, func() error { return through.RemovePeer(within(t), leader.id) })
		}
	}
	require.Len(t, leader.Peers(), 3)
	persist(t, func() error { return live.RemovePeer(within(t), dead.id) })
	persist(t, func() error { return leader.RemovePeer(within(t), dead.id) }) // said twice
	leader.proposes(t, "by-two")
}

// S141: one change at a time.
func TestNoVoterIsRemovedWhileAMemberCatchesUp(t *testing.T) {
	t.Parallel()
	c := three(t, nil)
	leader := c.leader()
	follower := c.but(leader)[0]
	late := c.prepare("c4", func(cfg *Config) { cfg.Join = []string{leader.addr} })
	require.NoError(t, c.start(late))
	eventually(t, func() error {
		if _, in := leader.serverOf(late.id); !in {
			return errors.New("not taken in yet")
		}
		return nil
	})
	late.crash(t) // before it votes, or after: then it is one voter of four
	if s, _ := leader.serverOf(late.id); s.Suffrage != 0 {
		refuses(t, func() error { return leader.RemovePeer(within(t), follower.id) })
	}
	persist(t, func() error { return leader.RemovePeer(within(t), late.id) })
	persist(t, func() error { return leader.RemovePeer(within(t), follower.id) })
}

func TestAMemberIsTakenInUnderTheIDThatIsThere(t *testing.T) {
	t.Parallel()
	c := three(t, nil)
	other := c.followers()[0]
	// It knows an address where nobody is, so it cannot ask by itself.
	waits := c.prepare("c4", func(cfg *Config) { cfg.Join = []string{"127.0.0.1:1"} })
	require.NoError(t, c.start(waits))
	refuses(t, func() error { return other.AddPeer(within(t), other.id, waits.addr) })
	refuses(t, func() error { return other.AddPeer(within(t), waits.id, c.leader().addr) })
	for range 2 { // said twice
		persist(t, func() error { return other.AddPeer(within(t), waits.id, waits.addr) })
	}
	c.settle(4)
	require.True(t, waits.knows(t, "nobody") == false)
	sameHash(t, c.members...)
}

func TestS68_ACopyOfADataFolderIsNoMember(t *testing.T) {
	t.Parallel()
	c := three(t, nil)
	original := c.followers()[0]
	original.crash(t)
	copied := c.prepare("copy", nil)
	copied.files, copied.cfg.Name = original.files, original.cfg.Name
	require.NoError(t, exec.Command("cp", "-a", original.cfg.Dir, copied.cfg.Dir).Run())
	require.NoError(t, c.start(original))
	c.members = c.but(copied)
	c.settle(3)
	require.NoError(t, c.start(copied))
	copied.says(t, "member "+original.id+" runs at "+original.addr+" too")
	original.proposes(t, "by-the-original")
	sameHash(t, c.members...)
}

// TestChangesSurviveTheLeader has the leader end in the middle of each change of the
// membership; the same change said again at another member ends it.
func TestChangesSurviveTheLeader(t *testing.T) {
	for name, change := range map[string]func(context.Context, *node, *node) error{
		"remove": func(ctx context.Context, at, gone *node) error { return at.RemovePeer(ctx, gone.id) },
		"add":    func(ctx context.Context, at, next *node) error { return at.AddPeer(ctx, next.id, next.addr) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, nil)
			for i := range 5 {
				c.add(fmt.Sprintf("c%d", i+1), nil)
			}
			c.settle(5)
			leader := c.leader()
			rest := c.but(leader)
			about := rest[0]
			if name == "add" {
				about = c.prepare("c6", func(cfg *Config) { cfg.Join = []string{"127.0.0.1:1"} })
				require.NoError(t, c.start(about))
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = change(within(t), leader, about) // whatever it comes to
			}()
			leader.crash(t)
			<-ended
			persist(t, func() error { return change(within(t), rest[1], about) })
			rest[1].proposes(t, "after-the-change")
			eventually(t, func() error {
				_, in := rest[2].serverOf(about.id)
				if in != (name == "add") {
					return fmt.Errorf("it is in the configuration: %t", in)
				}
				return nil
			})
			require.NoError(t, c.start(leader))
			require.True(t, leader.knows(t, "after-the-change"))
			if name == "remove" {
				eventually(t, func() error { return left(about) })
			}
		})
	}
}

func TestADeadMemberIsReplacedUnderLoad(t *testing.T) {
	eachStore(t, func(t *testing.T, kind string) {
		c := three(t, func(cfg *Config) { cfg.LogStore = kind })
		dead := c.followers()[0]
		old := dead.id
		dead.crash(t)
		require.NoError(t, os.RemoveAll(dead.cfg.Dir))
		dead.cfg.Bootstrap, dead.cfg.Join = false, nil
		for _, o := range c.but(dead) {
			dead.cfg.Join = append(dead.cfg.Join, o.addr)
		}
		rest, stop, n := c.but(dead), make(chan struct{}), 0
		var load sync.WaitGroup
		load.Go(func() {
			for ; ; n++ {
				select {
				case <-stop:
					return
				default:
					rest[n%2].proposes(t, fmt.Sprintf("load-%d", n))
				}
			}
		})
		end := sync.OnceFunc(func() { close(stop); load.Wait() })
		t.Cleanup(end) // what may fail the test must not outlive it
		require.NoError(t, c.start(dead))
		dead.says(t, "holdfast members replace "+old)
		persist(t, func() error { return rest[0].RemovePeer(within(t), old) })
		c.settle(3)
		end()
		for i := range n {
			require.True(t, dead.knows(t, fmt.Sprintf("load-%d", i)))
		}
		sameHash(t, c.members...)
	})
}

func TestJoinIsRefusedOrToldToTryAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	n := c.add("c1", nil)
	c.settle(1)
	for name, tc := range map[string]struct {
		req  *raftpb.JoinRequest
		want string
	}{
		"without an id":      {&raftpb.JoinRequest{RaftAddr: "x:1"}, "with an id and an address"},
		"of another cluster": {&raftpb.JoinRequest{MemberId: "m", RaftAddr: "x:1", ClusterId: "other"}, "give it an empty data folder"},
		"of an older build":  {&raftpb.JoinRequest{MemberId: "m", RaftAddr: "x:1"}, "upgrade it"},
	} {
		for range 2 {
			_, err := n.takeIn(within(t), tc.req)
			require.ErrorIs(t, err, ErrRefused, name)
			require.ErrorContains(t, err, tc.want, name)
		}
	}
}
