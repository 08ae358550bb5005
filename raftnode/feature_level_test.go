package raftnode

import (
	"context"
	"errors"
	"fmt"
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

// withMaxFeatureLevel makes a member support no more than a level.
func withMaxFeatureLevel(level uint32) func(*Config) {
	return func(c *Config) { c.maxFeatureLevel = level }
}

// raiseLevel requests a level as an operator does, until there is a definite answer.
func (n *testMember) raiseLevel(t *testing.T, level uint32) (err error) {
	t.Helper()
	retryUnavailable(t, func() error {
		_, err = n.Propose(testContext(t), &fsmpb.Command{Actor: "admin/ann", Body: &fsmpb.Command_SetFeatureLevel{SetFeatureLevel: &fsmpb.SetFeatureLevel{Level: level}}})
		var rej *fsm.Rejection
		if errors.As(err, &rej) {
			return nil
		}
		return err
	})
	return err
}

// rejectionReason is the reason of a rejection.
func rejectionReason(err error) fsm.Reason {
	var rej *fsm.Rejection
	if !errors.As(err, &rej) {
		return 0
	}
	return rej.Reason
}

// commandAtLevel returns a command that requires a level.
func commandAtLevel(level uint32) *fsmpb.Command {
	cmd := registerNode("newer")
	cmd.SchemaVersion = level
	return cmd
}

// S72: a command above the cluster's level does not get into the log: not when it is proposed on the
// leader, nor on another member, nor when a member forwards it without a check.
func TestS72_TheLeaderProposesNothingAboveTheClustersLevel(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	c.add("c1", withMaxFeatureLevel(fsm.Level1)) // it bootstraps the cluster
	c.add("c2", nil)
	c.waitReady(2)
	unknown := registerNode("odd")
	unknown.GetRegisterNode().ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 2047, protowire.VarintType), 1))
	for _, n := range c.members {
		for range 2 {
			for _, cmd := range []*fsmpb.Command{commandAtLevel(fsm.Level2), commandAtLevel(fsm.Level2 + 1), unknown} {
				before := time.Now()
				_, err := n.proposeUntilAnswered(t, cmd)
				require.Equal(t, fsm.Unsupported, rejectionReason(err), "%v", err)
				require.False(t, IsUnavailable(err), "it would be repeated for ever")
				require.Less(t, time.Since(before), testTimeout)
			}
		}
	}
	cmd := commandAtLevel(fsm.Level2)
	cmd.RequestId = make([]byte, fsm.RequestIDLen)
	eventually(t, func() error {
		s := &service{member: c.leader().Member}
		resp := s.propose(t.Context(), []*fsmpb.Command{cmd})[0]
		if f := resp.GetFailure(); f != raftpb.Failure_FAILURE_NONE { // it does not lead any more
			return errors.New(f.String())
		}
		require.EqualValues(t, fsm.Unsupported, resp.GetOutcome().GetRejection().GetReason())
		return nil
	})
	for _, n := range c.members {
		require.False(t, n.hasNode(t, "newer"))
		require.False(t, n.hasNode(t, "odd"))
	}
}

// S72: the level rises when every member supports it, voter or not, and the refusal names those that do
// not; a repeated request changes nothing.
func TestS72_TheLevelRisesWhenAllMembersUnderstandIt(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	c.add("c1", withMaxFeatureLevel(fsm.Level1))
	c.add("c2", nil)
	c.add("c3", nil)
	c.waitReady(3)
	for _, n := range c.members {
		require.NotZero(t, rejectionReason(n.raiseLevel(t, fsm.Level2)), "c1 is of level 1, or leads and says so itself")
	}
	old := c.members[0]
	require.NoError(t, old.stop())
	err := c.members[1].raiseLevel(t, fsm.Level2)
	require.Equal(t, fsm.Precondition, rejectionReason(err))
	require.ErrorContains(t, err, "the member at "+old.addr+" does not answer")
	old.cfg.maxFeatureLevel = 0 // upgraded
	require.NoError(t, c.start(old))
	eventually(t, func() error { return c.members[1].raiseLevel(t, fsm.Level2) }) // the upgraded member may not answer at once
	for range 2 {
		for _, n := range c.members {
			eventually(t, func() error { return n.raiseLevel(t, fsm.Level2) })
			require.Equal(t, fsm.Level2, n.machine.cluster().FeatureLevel)
			_, err := n.proposeUntilAnswered(t, commandAtLevel(fsm.Level2))
			require.NoError(t, err)
		}
	}
	require.Equal(t, fsm.Unsupported, rejectionReason(c.members[0].raiseLevel(t, fsm.MaxFeatureLevel+1)))
}

// S72: a member that does not support the cluster's level is refused, and told to be upgraded.
func TestS72_AMemberOfALowerLevelIsNotAdmitted(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	n := c.add("c1", nil)
	c.waitReady(1)
	for range 2 {
		for _, level := range []uint32{0, fsm.Level1} {
			err := n.membership.addMember(t.Context(), &raftpb.JoinRequest{MemberId: "x", Name: "x", RaftAddr: "127.0.0.1:1", FeatureLevel: level})
			require.ErrorContains(t, err, fmt.Sprintf("runs at feature level %d, the member understands 1: upgrade it", fsm.MaxFeatureLevel))
		}
	}
	require.Len(t, n.servers(), 1)
}

// blockingLogs holds back the write of the entry that raises the level.
type blockingLogs struct {
	raft.LogStore
	reached, release chan struct{}
}

func (h blockingLogs) StoreLogs(logs []*raft.Log) error {
	for _, l := range logs {
		cmd := new(fsmpb.Command)
		if l.Type == raft.LogCommand && proto.Unmarshal(l.Data, cmd) == nil && cmd.GetSetFeatureLevel() != nil {
			close(h.reached)
			<-h.release
		}
	}
	return h.LogStore.StoreLogs(logs)
}

// S72: the caller that raises the level may give up before the entry is applied; a member of a lower
// level cannot join in between all the same.
func TestS72_NobodyJoinsWhileTheLevelRisesUnobserved(t *testing.T) {
	t.Parallel()
	logs := blockingLogs{reached: make(chan struct{}), release: make(chan struct{})}
	c := newTestCluster(t, nil)
	n := c.add("c1", func(cfg *Config) {
		cfg.bootstrapLevel = fsm.Level1
		cfg.openStorage = func(o store.Options) (*storage, error) {
			s, err := openStorage(o)
			if err == nil {
				logs.LogStore = s.logs
				s.logs = logs
			}
			return s, err
		}
	})
	c.waitReady(1)
	asking, goAway := context.WithCancel(testContext(t))
	go func() { <-logs.reached; goAway() }()
	_, err := n.Propose(asking, &fsmpb.Command{Actor: "admin/ann", Body: &fsmpb.Command_SetFeatureLevel{SetFeatureLevel: &fsmpb.SetFeatureLevel{Level: fsm.Level2}}})
	require.Error(t, err, "it went away")
	require.False(t, n.membership.change.TryLock(), "a join may go on while the raise is not applied")
	joined := make(chan error, 1)
	go func() {
		joined <- n.membership.addMember(testContext(t), &raftpb.JoinRequest{MemberId: "x", Name: "x", RaftAddr: "127.0.0.1:1", FeatureLevel: fsm.Level1})
	}()
	close(logs.release)
	require.ErrorContains(t, <-joined, "runs at feature level 2, the member understands 1: upgrade it")
	require.Len(t, n.servers(), 1)
}

// S72: a member that does not answer, or answers with another member's id, counts as not supporting the level.
func TestS72_MembersThatLackALevelAreNamed(t *testing.T) {
	t.Parallel()
	status := func(id string, level uint32) memberStatus {
		return memberStatus{StatusResponse: &raftpb.StatusResponse{MemberId: id, Name: "c-" + id, FeatureLevel: level}}
	}
	servers := []raft.Server{{ID: "a", Address: "A"}, {ID: "b", Address: "B"}, {ID: "c", Address: "C", Suffrage: raft.Nonvoter}}
	for name, tc := range map[string]struct {
		answers map[raft.ServerID]memberStatus
		want    []string
	}{
		"all understand it":       {map[raft.ServerID]memberStatus{"b": status("b", 2), "c": status("c", 3)}, nil},
		"a non-voter is silent":   {map[raft.ServerID]memberStatus{"b": status("b", 2)}, []string{"the member at C does not answer: start it, or remove it"}},
		"another one answers":     {map[raft.ServerID]memberStatus{"b": status("x", 2), "c": status("c", 2)}, []string{"the member at B does not answer: start it, or remove it"}},
		"one is of the old build": {map[raft.ServerID]memberStatus{"b": status("b", 1), "c": status("c", 2)}, []string{"the member c-b at B understands 1: upgrade it"}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				require.Equal(t, tc.want, membersLackingLevel(servers, "a", tc.answers, 2))
			}
		})
	}
}
