package raftnode

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// memberStatus is one member's answer.
type memberStatus struct {
	*raftpb.StatusResponse
	clockOffset time.Duration // of its clock against this member's
	roundTrip   time.Duration
}

// queryStatuses asks all other members for their status concurrently; those that do not
// answer in time are left out.
func (p *peers) queryStatuses(ctx context.Context, timeout time.Duration, req *raftpb.StatusRequest) map[raft.ServerID]memberStatus {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	statuses := make(map[raft.ServerID]memberStatus)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, s := range p.servers() {
		if string(s.ID) == p.id {
			continue
		}
		wg.Go(func() {
			if a, err := p.queryStatus(ctx, s, req); err == nil {
				mu.Lock()
				statuses[s.ID] = a
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return statuses
}

// queryStatus asks one member; an answer of another member is an error.
func (p *peers) queryStatus(ctx context.Context, s raft.Server, req *raftpb.StatusRequest) (memberStatus, error) {
	conn, err := p.dial(string(s.ID), string(s.Address))
	if err != nil {
		return memberStatus{}, err
	}
	sent, start := p.cfg.now(), time.Now()
	resp, err := raftpb.NewMemberClient(conn).Status(ctx, req)
	if err == nil && resp.GetMemberId() != string(s.ID) {
		err = fmt.Errorf("member %s answered for member %s", resp.GetMemberId(), s.ID)
	}
	if err != nil {
		return memberStatus{}, err
	}
	roundTrip := time.Since(start)
	midpoint := sent.Add(roundTrip / 2).UnixNano()
	return memberStatus{StatusResponse: resp, clockOffset: time.Duration(resp.GetClockUnixNano() - midpoint), roundTrip: roundTrip}, nil
}

// queryStatusAt asks the controller at an address for its status, whatever its id.
func (p *peers) queryStatusAt(ctx context.Context, addr string) (*raftpb.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.leaderlessTimeout())
	defer cancel()
	conn, err := p.dialNew("", addr, func() {})
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing is left to flush
	return raftpb.NewMemberClient(conn).Status(ctx, &raftpb.StatusRequest{})
}

// closeStaleConnections closes the connections to those that are not in the configuration any more.
func (p *peers) closeStaleConnections() {
	wanted := map[peerKey]bool{}
	for _, s := range p.servers() {
		wanted[peerKey{string(s.ID), string(s.Address)}] = true
	}
	if len(wanted) == 0 {
		return // not a member yet
	}
	leader := p.tracker.current()
	wanted[peerKey{leader.id, leader.addr}] = true
	p.closeExcept(func(key peerKey) bool { return wanted[key] })
}
