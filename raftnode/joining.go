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

// inCluster is nil once a configuration that has this member was committed and received.
// Before, it serves nothing: it may be a stranger at a member's old address (S68).
func (m *Member) inCluster() error {
	if at := m.twin.at.Load(); at != nil {
		return fmt.Errorf("member %s runs at %s too, on a copy of the data folder: stop one of the two, for ever", m.id, *at)
	}
	if m.admitted.Load() {
		return nil
	}
	if why := m.apart.Load(); why != nil {
		return fmt.Errorf("this member (%s) is not in the cluster yet: %s", m.id, *why)
	}
	return fmt.Errorf("this member (%s) has not yet received a committed configuration that has it", m.id)
}

// outside notes why this member is in no cluster yet, and logs it when that is new.
func (m *Member) outside(err error) {
	why := err.Error()
	if old := m.apart.Swap(&why); old == nil || *old != why {
		m.log.Warn("this member is not in the cluster yet", "member_id", m.id, "why", why)
	}
}

// belongLoop joins, or founds, when the folder is new, corrects the own address when it
// changed, and ends the process when the cluster removed this member.
func (m *Member) belongLoop(ctx context.Context) {
	m.belongNow(ctx)
	every(ctx, m.cfg.pace(), func() { m.belongNow(ctx) })
}

func (m *Member) belongNow(ctx context.Context) {
	self, in := m.serverOf(m.id)
	if m.inPlace() {
		m.twin.forget()
	}
	switch {
	case m.raft.State() == raft.Shutdown:
		m.removed()
	case len(m.servers()) == 0 && m.founding.Load():
		m.foundOrJoin(ctx)
	case len(m.servers()) == 0:
		m.joinAny(ctx)
	case in && string(self.Address) != m.cfg.Advertise:
		m.lookForTwin(ctx, self)
		m.joinAny(ctx)
	case m.lead.now().lost() > 2*m.cfg.patience():
		m.askWhetherRemoved(ctx)
	}
	if !m.dialsUnnamed() {
		m.mux.closeUnnamed()
	}
	m.forgetOthers()
}

// forgetOthers closes the connections to those that are not in the configuration any more.
func (m *Member) forgetOthers() {
	wanted := map[peerKey]bool{}
	for _, s := range m.servers() {
		wanted[peerKey{string(s.ID), string(s.Address)}] = true
	}
	if len(wanted) == 0 {
		return // it is still to join
	}
	leader := m.lead.now()
	wanted[peerKey{leader.id, leader.addr}] = true
	m.peers.keep(func(key peerKey) bool { return wanted[key] })
}

// joinAny asks each known member until one takes this member in.
func (m *Member) joinAny(ctx context.Context) {
	addrs := slices.Clone(m.cfg.Join)
	for _, s := range m.servers() {
		addrs = append(addrs, string(s.Address))
	}
	var failed []string
	for _, addr := range addrs {
		if addr == m.cfg.Advertise {
			continue
		}
		err := m.join(ctx, addr)
		if err == nil || ctx.Err() != nil {
			return
		}
		failed = append(failed, fmt.Sprintf("join through %s: %s", addr, reason(err)))
	}
	m.outside(errors.New(strings.Join(failed, "; ")))
}

// reason is an error without what gRPC says around it.
func reason(err error) string { return status.Convert(err).Message() }

func (m *Member) join(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, changeTime+m.cfg.patience())
	defer cancel()
	conn, err := m.peers.dial("", addr)
	if err != nil {
		return err
	}
	resp, err := raftpb.NewMemberClient(conn).Join(ctx, &raftpb.JoinRequest{
		MemberId: m.id, Name: m.cfg.Name, RaftAddr: m.cfg.Advertise,
		ClusterId: m.storage.clusterID(), FeatureLevel: m.cfg.understands, ProcessId: m.process,
	})
	if err != nil {
		return err
	}
	if err := m.belong(resp.GetClusterId()); err != nil {
		return err
	}
	m.joined.Store(true)
	m.apart.Store(nil)
	return nil
}

// askWhetherRemoved believes the leader only: another member's configuration may be old.
func (m *Member) askWhetherRemoved(ctx context.Context) {
	for _, a := range m.askAll(ctx, m.cfg.pace(), &raftpb.StatusRequest{}) {
		if a.GetRole() == roleLeader && !slices.Contains(a.GetMemberIds(), m.id) {
			m.removed()
		}
	}
}

func (m *Member) removed() {
	if m.closing.Err() == nil {
		m.fatal(ExitRemoved, "the cluster removed this member: to bring it back, move "+m.cfg.Dir+" away and join again")
	}
}
