package raftnode

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// maxPromotionLag is how many entries a non-voter may lag to count as caught up.
	maxPromotionLag = 256
	// promotionProbes is how many consecutive probes must find that before it is promoted.
	promotionProbes = 3
	// membershipChangeTimeout is how long a configuration change may wait to be appended.
	membershipChangeTimeout = 5 * time.Second
)

// Peer is one member of the configuration.
type Peer struct {
	ID    string // Raft's
	Addr  string
	Voter bool
	Self  bool
}

// membership is Member's part that knows and changes who the members are.
type membership struct {
	*core
	retrier *retrier
	change  waitMutex // one change at a time (S141); raising the feature level is one
}

func (mb *membership) list() []Peer {
	servers := mb.servers()
	peers := make([]Peer, len(servers))
	for i, s := range servers {
		peers[i] = Peer{ID: string(s.ID), Addr: string(s.Address), Voter: s.Suffrage == raft.Voter, Self: string(s.ID) == mb.id}
	}
	return peers
}

func (mb *membership) statusAt(ctx context.Context, addr string) (*raftpb.StatusResponse, error) {
	s, err := mb.peers.queryStatusAt(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("ask the controller at %s: %s", addr, rpcMessage(err))
	}
	return s, nil
}

func (mb *membership) addPeer(ctx context.Context, id, addr string) error {
	s, err := mb.statusAt(ctx, addr)
	switch {
	case err != nil:
		return fmt.Errorf("add member %s: %w: %w", id, ErrNotLeader, err)
	case s.GetMemberId() != id:
		return fmt.Errorf("add member %s: %w: member %s is at %s", id, ErrRefused, s.GetMemberId(), addr)
	}
	req := &raftpb.JoinRequest{
		MemberId: id, Name: s.GetName(), RaftAddr: addr, ClusterId: s.GetClusterId(),
		FeatureLevel: s.GetFeatureLevel(), ProcessId: s.GetProcessId(),
		IncarnationId: s.GetIncarnationId(), LastLogIndex: s.GetLastLogIndex(), SaysLog: s.GetSaysLog(),
	}
	err = mb.runOnLeader(ctx,
		func(ctx context.Context) error { _, err := mb.acceptJoin(ctx, req); return err },
		func(ctx context.Context, leader raftpb.MemberClient) error {
			_, err := leader.Join(ctx, req)
			return err
		})
	if err != nil {
		return fmt.Errorf("add member %s: %w", id, err)
	}
	return nil
}

func (mb *membership) removePeer(ctx context.Context, id string) error {
	req := &raftpb.RemoveRequest{MemberId: id}
	err := mb.runOnLeader(ctx,
		func(ctx context.Context) error { return mb.removeMember(ctx, id) },
		func(ctx context.Context, leader raftpb.MemberClient) error {
			_, err := leader.Remove(ctx, req)
			return err
		})
	if err != nil {
		return fmt.Errorf("remove member %s: %w", id, err)
	}
	return nil
}

// runOnLeader does a change here when this member leads, else at the leader.
func (mb *membership) runOnLeader(ctx context.Context, local func(context.Context) error, remote func(context.Context, raftpb.MemberClient) error) error {
	return mb.retrier.retry(ctx, func(ctx context.Context, v *leaderInfo) error {
		if v.leading {
			return local(ctx)
		}
		conn, err := mb.peers.dial(v.id, v.addr)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotLeader, err)
		}
		err = remote(ctx, raftpb.NewMemberClient(conn))
		switch status.Code(err) {
		case codes.OK:
			return nil
		case codes.FailedPrecondition:
			return fmt.Errorf("%w: %s", ErrRefused, rpcMessage(err))
		case codes.Unimplemented:
			return fmt.Errorf("%w: the leader at %s is of a build that cannot: upgrade it first", ErrRefused, v.addr)
		default:
			return fmt.Errorf("%w: ask the leader at %s: %w", ErrNotLeader, v.addr, err)
		}
	})
}
