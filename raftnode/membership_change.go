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

// StatusAt asks whoever listens at an address who it is, member of this cluster or not.
func (m *Member) StatusAt(ctx context.Context, addr string) (*raftpb.StatusResponse, error) {
	s, err := m.peers.queryStatusAt(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("ask the controller at %s: %s", addr, rpcMessage(err))
	}
	return s, nil
}

// AddPeer has the leader take in, as a non-voter, the member that waits at an address
// under this id. One that is in the configuration already is no error.
func (m *Member) AddPeer(ctx context.Context, id, addr string) error {
	s, err := m.StatusAt(ctx, addr)
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
	err = m.runOnLeader(ctx,
		func(ctx context.Context) error { _, err := m.acceptJoin(ctx, req); return err },
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
	err := m.runOnLeader(ctx,
		func(ctx context.Context) error { return m.removeMember(ctx, id) },
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
func (m *Member) runOnLeader(ctx context.Context, local func(context.Context) error, remote func(context.Context, raftpb.MemberClient) error) error {
	return m.retrier.retry(ctx, func(ctx context.Context, v *leaderInfo) error {
		if v.leading {
			return local(ctx)
		}
		conn, err := m.peers.dial(v.id, v.addr)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotLeader, err)
		}
		err = remote(ctx, raftpb.NewMemberClient(conn))
		switch status.Code(err) {
		case codes.OK:
			return nil
		case codes.FailedPrecondition:
			return fmt.Errorf("%w: %s", ErrRefused, rpcMessage(err))
		default:
			return fmt.Errorf("%w: ask the leader at %s: %w", ErrNotLeader, v.addr, err)
		}
	})
}

// addMember is Join on the leader.
func (m *Member) addMember(ctx context.Context, req *raftpb.JoinRequest) error {
	m.membershipChange.Lock()
	defer m.membershipChange.Unlock()
	if level := m.machine.cluster().FeatureLevel; req.GetFeatureLevel() < level { // looked at under the lock: it is held while the level rises
		return fmt.Errorf("%w: the cluster runs at feature level %d, the member understands %d: upgrade it", ErrRefused, level, max(fsm.Level1, req.GetFeatureLevel()))
	}
	for _, s := range m.servers() {
		switch sameID := string(s.ID) == req.GetMemberId(); {
		case sameID && string(s.Address) == req.GetRaftAddr():
			return nil
		case sameID:
			if err := m.checkAddressChange(ctx, s, req); err != nil {
				return err
			}
		case string(s.Address) == req.GetRaftAddr():
			return fmt.Errorf("%w: member %s has the address %s: if its data folder is gone, `holdfast members replace %s` takes this one in instead",
				ErrRefused, s.ID, s.Address, s.ID)
		}
	}
	m.log.Info("taking a member in", "id", req.GetMemberId(), "name", req.GetName(), "addr", req.GetRaftAddr())
	future := m.raft.AddNonvoter(raft.ServerID(req.GetMemberId()), raft.ServerAddress(req.GetRaftAddr()), 0, membershipChangeTimeout)
	if err := await(ctx, future.Error); err != nil {
		return classifyError(err)
	}
	return nil
}

// checkAddressChange refuses another address while another process answers at the old one: two that
// run on copies of one data folder would vote twice.
func (m *Member) checkAddressChange(ctx context.Context, s raft.Server, req *raftpb.JoinRequest) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.leaderlessTimeout())
	defer cancel()
	current, err := m.peers.queryStatus(ctx, s, &raftpb.StatusRequest{})
	if err == nil && current.GetProcessId() != "" && current.GetProcessId() != req.GetProcessId() {
		return fmt.Errorf("%w: member %s runs at %s too, on a copy of the data folder: stop one of the two, for ever", ErrRefused, s.ID, s.Address)
	}
	return nil
}

// removeMember is Remove on the leader. A leader that is to go lets another one do it.
func (m *Member) removeMember(ctx context.Context, id string) error {
	m.membershipChange.Lock()
	defer m.membershipChange.Unlock()
	s, configured := m.serverOf(id)
	if !configured {
		return nil
	}
	if err := m.checkRemovable(ctx, s); err != nil {
		return err
	}
	if id == m.id {
		if err := m.tracker.transfer(ctx); err != nil {
			return err
		}
		return fmt.Errorf("%w: it is the one to be removed", ErrNotLeader)
	}
	m.log.Info("removing a member", "id", id)
	if err := await(ctx, m.raft.RemoveServer(raft.ServerID(id), 0, membershipChangeTimeout).Error); err != nil {
		return classifyError(err)
	}
	return nil
}

// checkRemovable refuses to remove a voter when those that are left are no quorum of
// themselves, or while a member is catching up, which may be what makes them one.
func (m *Member) checkRemovable(ctx context.Context, leaving raft.Server) error {
	if leaving.Suffrage != raft.Voter {
		return nil
	}
	remaining, responsive := 0, 0
	answers := m.peers.queryStatuses(ctx, membershipChangeTimeout, &raftpb.StatusRequest{})
	for _, s := range m.servers() {
		_, answered := answers[s.ID]
		switch {
		case s.ID == leaving.ID:
		case s.Suffrage != raft.Voter:
			return fmt.Errorf("%w: member %s is catching up: wait until it votes, or remove it first", ErrRefused, s.ID)
		case answered || string(s.ID) == m.id:
			remaining, responsive = remaining+1, responsive+1
		default:
			remaining++
		}
	}
	if remaining == 0 {
		return fmt.Errorf("%w: it is the last voter", ErrRefused)
	}
	if responsive <= remaining/2 {
		return fmt.Errorf("%w: of the %d voters that were left only %d answer, and they would be no quorum", ErrRefused, remaining, responsive)
	}
	return nil
}
