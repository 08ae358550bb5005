package raftnode

import (
	"context"
	"fmt"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// Visit asks whoever listens at an address who it is, member of this cluster or not.
func (m *Member) Visit(ctx context.Context, addr string) (*raftpb.StatusResponse, error) {
	s, err := m.askAddress(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("ask the controller at %s: %s", addr, reason(err))
	}
	return s, nil
}

// AddPeer has the leader take in, as a non-voter, the member that waits at an address
// under this id. One that is in the configuration already is no error.
func (m *Member) AddPeer(ctx context.Context, id, addr string) error {
	s, err := m.Visit(ctx, addr)
	switch {
	case err != nil:
		return fmt.Errorf("add member %s: %w: %w", id, ErrNotLeader, err)
	case s.GetMemberId() != id:
		return fmt.Errorf("add member %s: %w: member %s is at %s", id, ErrRefused, s.GetMemberId(), addr)
	}
	req := &raftpb.JoinRequest{
		MemberId: id, Name: s.GetName(), RaftAddr: addr, ClusterId: s.GetClusterId(),
		FeatureLevel: s.GetFeatureLevel(), ProcessId: s.GetProcessId(),
	}
	err = m.atLeader(ctx,
		func(ctx context.Context) error { _, err := m.takeIn(ctx, req); return err },
		func(ctx context.Context, leader raftpb.MemberClient) error {
			_, err := leader.Join(ctx, req)
			return err
		})
	if err != nil {
		return fmt.Errorf("add member %s: %w", id, err)
	}
	return nil
}

// RemovePeer removes a member from the configuration, by Raft's id. One that is not in
// it is no error. ErrRefused: the others could not go on, or one of them is catching up.
func (m *Member) RemovePeer(ctx context.Context, id string) error {
	req := &raftpb.RemoveRequest{MemberId: id}
	err := m.atLeader(ctx,
		func(ctx context.Context) error { return m.dismiss(ctx, id) },
		func(ctx context.Context, leader raftpb.MemberClient) error {
			_, err := leader.Remove(ctx, req)
			return err
		})
	if err != nil {
		return fmt.Errorf("remove member %s: %w", id, err)
	}
	return nil
}

// atLeader does a change here when this member leads, else at the leader.
func (m *Member) atLeader(ctx context.Context, here func(context.Context) error, there func(context.Context, raftpb.MemberClient) error) error {
	return m.retry(ctx, func(ctx context.Context, v *view) error {
		if v.leading {
			return here(ctx)
		}
		conn, err := m.peers.dial(v.id, v.addr)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotLeader, err)
		}
		err = there(ctx, raftpb.NewMemberClient(conn))
		switch status.Code(err) {
		case codes.OK:
			return nil
		case codes.FailedPrecondition:
			return fmt.Errorf("%w: %s", ErrRefused, reason(err))
		default:
			return fmt.Errorf("%w: ask the leader at %s: %w", ErrNotLeader, v.addr, err)
		}
	})
}

// admit is Join on the leader.
func (m *Member) admit(ctx context.Context, req *raftpb.JoinRequest) error {
	m.membership.Lock()
	defer m.membership.Unlock()
	if at := m.machine.cluster().FeatureLevel; req.GetFeatureLevel() < at { // looked at under the lock: it is held while the level rises
		return fmt.Errorf("%w: the cluster runs at feature level %d, the member understands %d: upgrade it", ErrRefused, at, max(fsm.Level1, req.GetFeatureLevel()))
	}
	for _, s := range m.servers() {
		switch same := string(s.ID) == req.GetMemberId(); {
		case same && string(s.Address) == req.GetRaftAddr():
			return nil
		case same:
			if err := m.moved(ctx, s, req); err != nil {
				return err
			}
		case string(s.Address) == req.GetRaftAddr():
			return fmt.Errorf("%w: member %s has the address %s: if its data folder is gone, `holdfast members replace %s` takes this one in instead",
				ErrRefused, s.ID, s.Address, s.ID)
		}
	}
	m.log.Info("taking a member in", "id", req.GetMemberId(), "name", req.GetName(), "addr", req.GetRaftAddr())
	future := m.raft.AddNonvoter(raft.ServerID(req.GetMemberId()), raft.ServerAddress(req.GetRaftAddr()), 0, changeTime)
	if err := await(ctx, future.Error); err != nil {
		return classify(err)
	}
	return nil
}

// moved refuses another address while another process answers at the old one: two that
// run on copies of one data folder would vote twice.
func (m *Member) moved(ctx context.Context, s raft.Server, req *raftpb.JoinRequest) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.patience())
	defer cancel()
	old, err := m.askOne(ctx, s, &raftpb.StatusRequest{})
	if err == nil && old.GetProcessId() != "" && old.GetProcessId() != req.GetProcessId() {
		return fmt.Errorf("%w: member %s runs at %s too, on a copy of the data folder: stop one of the two, for ever", ErrRefused, s.ID, s.Address)
	}
	return nil
}

// dismiss is Remove on the leader. A leader that is to go lets another one do it.
func (m *Member) dismiss(ctx context.Context, id string) error {
	m.membership.Lock()
	defer m.membership.Unlock()
	s, in := m.serverOf(id)
	if !in {
		return nil
	}
	if err := m.removable(ctx, s); err != nil {
		return err
	}
	if id == m.id {
		if err := m.TransferLeadership(ctx); err != nil {
			return err
		}
		return fmt.Errorf("%w: it is the one to be removed", ErrNotLeader)
	}
	m.log.Info("removing a member", "id", id)
	if err := await(ctx, m.raft.RemoveServer(raft.ServerID(id), 0, changeTime).Error); err != nil {
		return classify(err)
	}
	return nil
}

// removable refuses to remove a voter when those that are left are no quorum of
// themselves, or while a member is catching up, which may be what makes them one.
func (m *Member) removable(ctx context.Context, gone raft.Server) error {
	if gone.Suffrage != raft.Voter {
		return nil
	}
	left, answer := 0, 0
	answers := m.askAll(ctx, changeTime, &raftpb.StatusRequest{})
	for _, s := range m.servers() {
		_, answered := answers[s.ID]
		switch {
		case s.ID == gone.ID:
		case s.Suffrage != raft.Voter:
			return fmt.Errorf("%w: member %s is catching up: wait until it votes, or remove it first", ErrRefused, s.ID)
		case answered || string(s.ID) == m.id:
			left, answer = left+1, answer+1
		default:
			left++
		}
	}
	if left == 0 {
		return fmt.Errorf("%w: it is the last voter", ErrRefused)
	}
	if answer <= left/2 {
		return fmt.Errorf("%w: of the %d voters that were left only %d answer, and they would be no quorum", ErrRefused, left, answer)
	}
	return nil
}
