package raftnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// checkAdmitted is nil once a configuration that has this member was committed and received.
// Before, it serves nothing: it may be a stranger at a member's old address (S68).
func (m *Member) checkAdmitted() error {
	if addr := m.duplicate.addr.Load(); addr != nil {
		return fmt.Errorf("member %s runs at %s too, on a copy of the data folder: stop one of the two, for ever", m.id, *addr)
	}
	if m.admitted.Load() {
		return nil
	}
	if reason := m.joinError.Load(); reason != nil {
		return fmt.Errorf("this member (%s) is not in the cluster yet: %s", m.id, *reason)
	}
	return fmt.Errorf("this member (%s) has not yet received a committed configuration that has it", m.id)
}

// setJoinError notes why this member is in no cluster yet, and logs it when that is new.
func (m *Member) setJoinError(err error) {
	reason := err.Error()
	if old := m.joinError.Swap(&reason); old == nil || *old != reason {
		m.log.Warn("this member is not in the cluster yet", "member_id", m.id, "why", reason)
	}
}

// membershipLoop joins, or founds, when the folder is new, corrects the own address when it
// changed, and ends the process when the cluster removed this member.
func (m *Member) membershipLoop(ctx context.Context) {
	m.reconcileMembership(ctx)
	runEvery(ctx, m.cfg.probeInterval(), func() { m.reconcileMembership(ctx) })
}

func (m *Member) reconcileMembership(ctx context.Context) {
	self, configured := m.serverOf(m.id)
	if m.atConfiguredAddress() {
		m.duplicate.reset()
	}
	switch {
	case m.raft.State() == raft.Shutdown:
		m.exitRemoved()
	case len(m.servers()) == 0 && m.bootstrapping.Load():
		m.bootstrapOrJoin(ctx)
	case len(m.servers()) == 0:
		m.joinThroughAny(ctx)
	case configured && string(self.Address) != m.cfg.Advertise:
		m.probeDuplicate(ctx, self)
		m.joinThroughAny(ctx)
	case m.tracker.current().leaderlessFor() > 2*m.cfg.leaderlessTimeout():
		m.detectRemoval(ctx)
	}
	if !m.dialsUntargeted() {
		m.mux.closeUntargeted()
	}
	m.peers.closeStaleConnections()
}

// joinThroughAny asks each known member until one takes this member in.
func (m *Member) joinThroughAny(ctx context.Context) {
	addrs := slices.Clone(m.cfg.Join)
	for _, s := range m.servers() {
		addrs = append(addrs, string(s.Address))
	}
	var failed []string
	for _, addr := range addrs {
		if addr == m.cfg.Advertise {
			continue
		}
		err := m.joinThrough(ctx, addr)
		if err == nil || ctx.Err() != nil {
			return
		}
		failed = append(failed, fmt.Sprintf("join through %s: %s", addr, rpcMessage(err)))
	}
	m.setJoinError(errors.New(strings.Join(failed, "; ")))
}

// reason is an error without what gRPC says around it.
func rpcMessage(err error) string { return status.Convert(err).Message() }

func (m *Member) joinThrough(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, membershipChangeTimeout+m.cfg.leaderlessTimeout())
	defer cancel()
	conn, err := m.peers.dial("", addr)
	if err != nil {
		return err
	}
	resp, err := raftpb.NewMemberClient(conn).Join(ctx, &raftpb.JoinRequest{
		MemberId: m.id, Name: m.cfg.Name, RaftAddr: m.cfg.Advertise,
		ClusterId: m.storage.clusterID(), FeatureLevel: m.cfg.maxFeatureLevel, ProcessId: m.processID,
	})
	if err != nil {
		return err
	}
	if err := m.recordClusterID(resp.GetClusterId()); err != nil {
		return err
	}
	m.joined.Store(true)
	m.joinError.Store(nil)
	return nil
}

// detectRemoval believes the leader only: another member's configuration may be old.
func (m *Member) detectRemoval(ctx context.Context) {
	for _, a := range m.peers.queryStatuses(ctx, m.cfg.probeInterval(), &raftpb.StatusRequest{}) {
		if a.GetRole() == roleLeader && !slices.Contains(a.GetMemberIds(), m.id) {
			m.exitRemoved()
		}
	}
}

func (m *Member) exitRemoved() {
	if m.lifetime.Err() == nil {
		m.fatal(ExitRemoved, "the cluster removed this member: to bring it back, move "+m.cfg.Dir+" away and join again")
	}
}
