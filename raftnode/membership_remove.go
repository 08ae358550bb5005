package raftnode

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// removeMember is Remove on the leader. A leader that is to be removed transfers leadership first.
func (mb *membership) removeMember(ctx context.Context, id string) error {
	mb.change.Lock()
	defer mb.change.Unlock()
	s, configured := mb.serverOf(id)
	if !configured {
		return nil
	}
	if err := mb.checkRemovable(ctx, s); err != nil {
		return err
	}
	if id == mb.id {
		if err := mb.tracker.transfer(ctx); err != nil {
			return err
		}
		return fmt.Errorf("%w: it is the one to be removed", ErrNotLeader)
	}
	mb.log.Info("removing a member", "id", id)
	if err := await(ctx, mb.raft.RemoveServer(raft.ServerID(id), 0, membershipChangeTimeout).Error); err != nil {
		return classifyError(err)
	}
	return nil
}

// checkRemovable refuses to remove, or to demote, a voter when too few of the remaining voters answer and are ready for a
// quorum, or while a non-voter is catching up, which may complete one.
func (mb *membership) checkRemovable(ctx context.Context, leaving raft.Server) error {
	if leaving.Suffrage != raft.Voter {
		return nil
	}
	for end := time.Now().Add(readyPatience); ; {
		answers := mb.peers.queryStatuses(ctx, membershipChangeTimeout, &raftpb.StatusRequest{})
		err := mb.checkQuorumWithout(leaving.ID, mb.servers(), answers)
		if err == nil || len(answers) == 0 || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
		time.Sleep(readyPatience / 20)
	}
}

// readyPatience is how long voters that are not ready are asked again: after an election they have to hear of the leader.
const readyPatience = 2 * time.Second

// checkQuorumWithout counts as the plan of a removal does: a voter that answers and is not ready, as its disk is full, commits nothing.
func (mb *membership) checkQuorumWithout(leaving raft.ServerID, servers []raft.Server, answers map[raft.ServerID]memberStatus) error {
	remaining, ready := 0, 0
	for _, s := range servers {
		a, answered := answers[s.ID]
		switch {
		case s.ID == leaving:
		case s.Suffrage != raft.Voter && mb.isNonVoter(s.ID): // it stays one
		case s.Suffrage != raft.Voter:
			return fmt.Errorf("%w: member %s is catching up: wait until it votes, or remove it first", ErrRefused, s.ID)
		case string(s.ID) == mb.id, answered && a.GetTrouble() == "":
			remaining, ready = remaining+1, ready+1
		default:
			remaining++
		}
	}
	if remaining == 0 {
		return fmt.Errorf("%w: it is the last voter", ErrRefused)
	}
	if ready <= remaining/2 {
		return fmt.Errorf("%w: of the %d voters that were left only %d answer and are ready, and they would be no quorum", ErrRefused, remaining, ready)
	}
	return nil
}
