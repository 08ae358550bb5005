package raftnode

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

func (mb *membership) demotePeer(ctx context.Context, id string) error {
	err := mb.runOnLeader(ctx,
		func(ctx context.Context) error { return mb.demoteMember(ctx, id) },
		func(ctx context.Context, leader raftpb.MemberClient) error {
			_, err := leader.Demote(ctx, &raftpb.DemoteRequest{MemberId: id})
			return err
		})
	if err != nil {
		return fmt.Errorf("demote member %s: %w", id, err)
	}
	return nil
}

// demoteMember is Demote on the leader. A leader that is to be demoted transfers leadership first.
func (mb *membership) demoteMember(ctx context.Context, id string) error {
	mb.change.Lock()
	defer mb.change.Unlock()
	s, configured := mb.serverOf(id)
	switch {
	case !configured:
		return fmt.Errorf("%w: it is not in the configuration", ErrRefused)
	case s.Suffrage != raft.Voter:
		return nil
	case !mb.isNonVoter(s.ID):
		return fmt.Errorf("%w: it is not recorded as a non-voter, and would be promoted again", ErrRefused)
	}
	if err := mb.checkRemovable(ctx, s); err != nil {
		return err
	}
	if id == mb.id {
		if err := mb.tracker.transfer(ctx); err != nil {
			return err
		}
		return fmt.Errorf("%w: it is the one to be demoted", ErrNotLeader)
	}
	mb.log.Info("demoting a member to non-voter", "id", id)
	if err := await(ctx, mb.raft.DemoteVoter(raft.ServerID(id), 0, membershipChangeTimeout).Error); err != nil {
		return classifyError(err)
	}
	return nil
}

func (mb *membership) transferTo(ctx context.Context, id string) error {
	err := mb.runOnLeader(ctx,
		func(ctx context.Context) error { return mb.transferLeadership(ctx, id) },
		func(ctx context.Context, leader raftpb.MemberClient) error {
			_, err := leader.Transfer(ctx, &raftpb.TransferRequest{MemberId: id})
			return err
		})
	if err != nil {
		return fmt.Errorf("transfer leadership to member %s: %w", id, err)
	}
	return nil
}

// transferLeadership is Transfer on the leader. It is ErrNotLeader once another one leads, so that the caller asks that one
// whether it is the member that was meant.
func (mb *membership) transferLeadership(ctx context.Context, id string) error {
	if id == mb.id {
		return nil
	}
	s, configured := mb.serverOf(id)
	if !configured || s.Suffrage != raft.Voter {
		return fmt.Errorf("%w: it is no voter", ErrRefused)
	}
	asking, cancel := context.WithTimeout(ctx, membershipChangeTimeout)
	defer cancel()
	switch a, err := mb.peers.queryStatus(asking, s, &raftpb.StatusRequest{}); {
	case err != nil:
		return fmt.Errorf("%w: it does not answer: %s", ErrRefused, rpcMessage(err))
	case a.GetTrouble() != "":
		return fmt.Errorf("%w: it is not ready: %s", ErrRefused, a.GetTrouble())
	}
	if err := mb.tracker.transferTo(ctx, s); err != nil {
		return err
	}
	return fmt.Errorf("%w: leadership was handed on", ErrNotLeader)
}

// transferTo tries to transfer leadership to one voter until this member does not lead, or ctx ends.
func (l *leaderTracker) transferTo(ctx context.Context, s raft.Server) error {
	for l.refresh().leading {
		future := l.raft.LeadershipTransferToServer(s.ID, s.Address)
		err := await(ctx, func() error { return l.calls.do(future.Error) })
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("transfer leadership: %w", err)
		}
		if err != nil && l.refresh().leading {
			sleep(ctx, 20*time.Millisecond)
		}
	}
	return nil
}
