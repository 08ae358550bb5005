package raftnode

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// takenFor has a member say that it understands no more than a level.
func takenFor(level uint32) func(*Config) { return func(c *Config) { c.understands = level } }

// rises asks for a level as an operator does, until it is answered.
func (n *node) rises(t *testing.T, level uint32) (err error) {
	t.Helper()
	persist(t, func() error {
		_, err = n.Propose(within(t), &fsmpb.Command{Actor: "admin/ann", Body: &fsmpb.Command_SetFeatureLevel{SetFeatureLevel: &fsmpb.SetFeatureLevel{Level: level}}})
		var rej *fsm.Rejection
		if errors.As(err, &rej) {
			return nil
		}
		return err
	})
	return err
}

// refusedFor is the reason of a rejection.
func refusedFor(err error) fsm.Reason {
	var rej *fsm.Rejection
	if !errors.As(err, &rej) {
		return 0
	}
	return rej.Reason
}

// newer is a command that says that it needs a level.
func newer(level uint32) *fsmpb.Command {
	cmd := register("newer")
	cmd.SchemaVersion = level
	return cmd
}

// S72: what the cluster's level does not know does not get into the log, proposed on the
// leader, on another member, or forwarded by one that did not look.
func TestS72_TheLeaderProposesNothingAboveTheClustersLevel(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	c.add("c1", takenFor(fsm.Level1)) // it founds the cluster
	c.add("c2", nil)
	c.settle(2)
	unknown := register("odd")
	unknown.GetRegisterNode().ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 2047, protowire.VarintType), 1))
	for _, n := range c.members {
		for range 2 {
			for _, cmd := range []*fsmpb.Command{newer(fsm.Level2), newer(fsm.Level2 + 1), unknown} {
				before := time.Now()
				_, err := n.answers(t, cmd)
				require.Equal(t, fsm.Unsupported, refusedFor(err), "%v", err)
				require.False(t, IsUnavailable(err), "it would be repeated for ever")
				require.Less(t, time.Since(before), patient)
			}
		}
	}
	cmd := newer(fsm.Level2)
	cmd.RequestId = make([]byte, requestIDLen)
	eventually(t, func() error {
		s := &service{member: c.leader().Member}
		resp := s.propose(t.Context(), []*fsmpb.Command{cmd})[0]
		if f := resp.GetFailure(); f != raftpb.Failure_FAILURE_NONE { // it leads no more
			return errors.New(f.String())
		}
		require.EqualValues(t, fsm.Unsupported, resp.GetOutcome().GetRejection().GetReason())
		return nil
	})
	for _, n := range c.members {
		require.False(t, n.knows(t, "newer"))
		require.False(t, n.knows(t, "odd"))
	}
}

// S72: the level rises when every member says that it understands it, with a vote or not,
// and who is missing is named; asked again, nothing changes.
func TestS72_TheLevelRisesWhenAllMembersUnderstandIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	c.add("c1", takenFor(fsm.Level1))
	c.add("c2", nil)
	c.add("c3", nil)
	c.settle(3)
	for _, n := range c.members {
		require.NotZero(t, refusedFor(n.rises(t, fsm.Level2)), "c1 is of level 1, or leads and says so itself")
	}
	old := c.members[0]
	require.NoError(t, old.stop())
	err := c.members[1].rises(t, fsm.Level2)
	require.Equal(t, fsm.Precondition, refusedFor(err))
	require.ErrorContains(t, err, "the member at "+old.addr+" does not answer")
	old.cfg.understands = 0 // upgraded
	require.NoError(t, c.start(old))
	eventually(t, func() error { return c.members[1].rises(t, fsm.Level2) }) // it may not answer at once
	for range 2 {
		for _, n := range c.members {
			eventually(t, func() error { return n.rises(t, fsm.Level2) })
			require.Equal(t, fsm.Level2, n.machine.cluster().FeatureLevel)
			_, err := n.answers(t, newer(fsm.Level2))
			require.NoError(t, err)
		}
	}
	require.Equal(t, fsm.Unsupported, refusedFor(c.members[0].rises(t, fsm.MaxFeatureLevel+1)))
}

// S72: a member that does not understand the cluster's level is refused with what to do.
func TestS72_AMemberOfALowerLevelIsNotTakenIn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	n := c.add("c1", nil)
	c.settle(1)
	for range 2 {
		for _, level := range []uint32{0, fsm.Level1} {
			err := n.admit(t.Context(), &raftpb.JoinRequest{MemberId: "x", Name: "x", RaftAddr: "127.0.0.1:1", FeatureLevel: level})
			require.ErrorContains(t, err, "runs at feature level 2, the member understands 1: upgrade it")
		}
	}
	require.Len(t, n.servers(), 1)
}

// heldLogs hold back the entry that raises the level, on its way to the disk.
type heldLogs struct {
	raft.LogStore
	met, release chan struct{}
}

func (h heldLogs) StoreLogs(logs []*raft.Log) error {
	for _, l := range logs {
		cmd := new(fsmpb.Command)
		if l.Type == raft.LogCommand && proto.Unmarshal(l.Data, cmd) == nil && cmd.GetSetFeatureLevel() != nil {
			close(h.met)
			<-h.release
		}
	}
	return h.LogStore.StoreLogs(logs)
}

// S72: who asked for the level may go away before it is applied; nobody of a lower level
// comes in between all the same.
func TestS72_NobodyJoinsWhileTheLevelRisesUnobserved(t *testing.T) {
	t.Parallel()
	held := heldLogs{met: make(chan struct{}), release: make(chan struct{})}
	c := newCluster(t, nil)
	n := c.add("c1", func(cfg *Config) {
		cfg.level = fsm.Level1
		cfg.openStorage = func(o store.Options) (*storage, error) {
			s, err := openStorage(o)
			if err == nil {
				held.LogStore = s.logs
				s.logs = held
			}
			return s, err
		}
	})
	c.settle(1)
	asking, goAway := context.WithCancel(within(t))
	go func() { <-held.met; goAway() }()
	_, err := n.Propose(asking, &fsmpb.Command{Actor: "admin/ann", Body: &fsmpb.Command_SetFeatureLevel{SetFeatureLevel: &fsmpb.SetFeatureLevel{Level: fsm.Level2}}})
	require.Error(t, err, "it went away")
	joined := make(chan error, 1)
	go func() {
		joined <- n.admit(within(t), &raftpb.JoinRequest{MemberId: "x", Name: "x", RaftAddr: "127.0.0.1:1", FeatureLevel: fsm.Level1})
	}()
	pause(t.Context(), heartbeat) // it waits for the raise; without that it is on its way by now
	close(held.release)
	require.ErrorContains(t, <-joined, "runs at feature level 2, the member understands 1: upgrade it")
	require.Len(t, n.servers(), 1)
}

// S72: whoever does not answer, or answers for another, counts as not understanding.
func TestS72_MissingLevels(t *testing.T) {
	t.Parallel()
	says := func(id string, level uint32) seen {
		return seen{StatusResponse: &raftpb.StatusResponse{MemberId: id, Name: "c-" + id, FeatureLevel: level}}
	}
	servers := []raft.Server{{ID: "a", Address: "A"}, {ID: "b", Address: "B"}, {ID: "c", Address: "C", Suffrage: raft.Nonvoter}}
	for name, tc := range map[string]struct {
		answers map[raft.ServerID]seen
		want    []string
	}{
		"all understand it":       {map[raft.ServerID]seen{"b": says("b", 2), "c": says("c", 3)}, nil},
		"a non-voter is silent":   {map[raft.ServerID]seen{"b": says("b", 2)}, []string{"the member at C does not answer: start it, or remove it"}},
		"another one answers":     {map[raft.ServerID]seen{"b": says("x", 2), "c": says("c", 2)}, []string{"the member at B does not answer: start it, or remove it"}},
		"one is of the old build": {map[raft.ServerID]seen{"b": says("b", 1), "c": says("c", 2)}, []string{"the member c-b at B understands 1: upgrade it"}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				require.Equal(t, tc.want, missingLevel(servers, "a", tc.answers, 2))
			}
		})
	}
}
