package raftnode

import (
	"bytes"
	"context"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// addMember is Join on the leader.
func (mb *membership) addMember(ctx context.Context, req *raftpb.JoinRequest) error {
	mb.change.Lock()
	defer mb.change.Unlock()
	if level := mb.machine.cluster().FeatureLevel; req.GetFeatureLevel() < level { // under the lock, which is held while the level is raised
		return fmt.Errorf("%w: the cluster runs at feature level %d, the member understands %d: upgrade it", ErrRefused, level, max(fsm.Level1, req.GetFeatureLevel()))
	}
	if err := mb.checkIncarnation(req); err != nil {
		return err
	}
	for _, s := range mb.servers() {
		switch sameID := string(s.ID) == req.GetMemberId(); {
		case sameID && string(s.Address) == req.GetRaftAddr():
			return nil
		case sameID:
			if err := mb.checkAddressChange(ctx, s, req); err != nil {
				return err
			}
		case string(s.Address) == req.GetRaftAddr():
			return fmt.Errorf("%w: member %s has the address %s: if its data folder is gone, `holdfast members replace %s` takes this one in instead",
				ErrRefused, s.ID, s.Address, s.ID)
		}
	}
	mb.log.Info("adding a member", "id", req.GetMemberId(), "name", req.GetName(), "addr", req.GetRaftAddr())
	future := mb.raft.AddNonvoter(raft.ServerID(req.GetMemberId()), raft.ServerAddress(req.GetRaftAddr()), 0, membershipChangeTimeout)
	if err := await(ctx, future.Error); err != nil {
		return classifyError(err)
	}
	return nil
}

// checkIncarnation refuses a member of the cluster as it was before a restore or a recovery (S1, S24). Its log may have
// other entries under the indexes and terms of this one, which Raft would not notice. A member of the configuration is
// of this incarnation: the restored member was alone in it.
func (mb *membership) checkIncarnation(req *raftpb.JoinRequest) error {
	cluster := mb.machine.cluster()
	if _, configured := mb.serverOf(req.GetMemberId()); configured || req.GetClusterId() == "" || cluster.Incarnation <= 1 {
		return nil
	}
	isNew := req.GetSaysLog() && len(req.GetIncarnationId()) == 0 && req.GetLastLogIndex() == 0
	if isNew || bytes.Equal(req.GetIncarnationId(), cluster.IncarnationID) {
		return nil
	}
	return fmt.Errorf("%w: the cluster was restored or recovered since, and member %s is of its former life: give it an empty data folder", ErrRefused, req.GetMemberId())
}

// checkAddressChange refuses another address while another process answers at the old one: two
// processes on copies of one data directory would vote twice. One whose Member service does not answer may be slow, or
// about to stop: while it answers Raft, it is the member. Besides, raft must not change an address that it has an answer
// from at the same time: it reads the peer of a replication without its lock then.
func (mb *membership) checkAddressChange(ctx context.Context, s raft.Server, req *raftpb.JoinRequest) error {
	ctx, cancel := context.WithTimeout(ctx, mb.cfg.leaderlessTimeout())
	defer cancel()
	current, err := mb.peers.queryStatus(ctx, s, &raftpb.StatusRequest{})
	switch {
	case err == nil && current.GetProcessId() != "" && current.GetProcessId() != req.GetProcessId():
		return fmt.Errorf("%w: member %s runs at %s too, on a copy of the data folder: stop one of the two, for ever", ErrRefused, s.ID, s.Address)
	case err != nil && mb.transport.answeredWithin(mb.cfg.probeInterval(), s.ID, s.Address):
		return fmt.Errorf("%w: member %s answered at %s just now: its address changes once nothing answers there", ErrNotLeader, s.ID, s.Address)
	}
	return nil
}

func (mb *membership) promoteToVoter(ctx context.Context, s raft.Server) {
	mb.change.Lock()
	defer mb.change.Unlock()
	if current, ok := mb.serverOf(string(s.ID)); !ok || current != s || mb.isNonVoter(s.ID) {
		return
	}
	mb.log.Info("promoting a member to voter", "id", string(s.ID))
	if err := await(ctx, mb.raft.AddVoter(s.ID, s.Address, 0, membershipChangeTimeout).Error); err != nil && ctx.Err() == nil {
		mb.log.Warn("cannot promote a member to voter", "id", string(s.ID), "error", err)
	}
}

// isNonVoter tells whether an operator wants the member not to vote.
func (mb *membership) isNonVoter(id raft.ServerID) bool {
	cluster := mb.machine.cluster()
	return cluster.IsNonVoter(string(id))
}

// acceptJoin decides on the leader whether a member may join.
func (mb *membership) acceptJoin(ctx context.Context, req *raftpb.JoinRequest) (*raftpb.JoinResponse, error) {
	cluster := mb.machine.cluster()
	switch {
	case req.GetMemberId() == "" || req.GetRaftAddr() == "":
		return nil, fmt.Errorf("%w: a member joins with an id and an address", ErrRefused)
	case cluster.ID == "":
		return nil, fmt.Errorf("%w: the cluster is not made yet", ErrNotLeader)
	case req.GetClusterId() != "" && req.GetClusterId() != cluster.ID:
		return nil, fmt.Errorf("%w: the member belongs to cluster %s, not %s: give it an empty data folder", ErrRefused, req.GetClusterId(), cluster.ID)
	}
	if err := mb.addMember(ctx, req); err != nil {
		return nil, err
	}
	return &raftpb.JoinResponse{ClusterId: cluster.ID}, nil
}
