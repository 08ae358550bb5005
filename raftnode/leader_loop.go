package raftnode

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// leaderLoop does a leader's duties for as long as this member leads.
func (m *Member) leaderLoop(ctx context.Context) {
	for ctx.Err() == nil {
		v := m.tracker.current()
		if v.leading {
			m.leadTerm(v)
		}
		select {
		case <-v.ctx.Done():
		case <-ctx.Done():
		}
	}
}

// term is one term of this leader.
func (m *Member) leadTerm(v *leaderInfo) {
	ctx, cancel := context.WithCancel(v.ctx)
	defer cancel()
	stop := context.AfterFunc(m.lifetime, cancel)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { m.watchMainLoop(ctx) })
	if !m.barrier(ctx, v.term) {
		return
	}
	m.proposeClusterBootstrap(ctx)
	wg.Go(func() { m.sweep(ctx) })
	r := &leaderDuties{member: m, caughtUpProbes: make(map[string]int)}
	wg.Go(func() { runEvery(ctx, m.cfg.probeInterval(), func() { r.probeMembers(ctx) }) })
	for {
		m.checkpoint(ctx)
		select {
		case <-m.checkpointSignal:
		case <-ctx.Done():
			return
		}
	}
}

// barrier waits until everything that was committed before this term is applied
// here, and opens the gate for reads (S139).
func (m *Member) barrier(ctx context.Context, term uint64) bool {
	for ctx.Err() == nil {
		future := m.raft.Barrier(time.Second)
		if err := await(ctx, future.Error); err != nil {
			sleep(ctx, 10*time.Millisecond)
			continue
		}
		if entry, ok := future.(raft.IndexFuture); ok {
			m.machine.advancePast(entry.Index())
		}
		m.readGate.open(term)
		return true
	}
	return false
}

// begin proposes the first command of a new cluster.
func (m *Member) proposeClusterBootstrap(ctx context.Context) {
	for ctx.Err() == nil && m.machine.cluster().ID == "" {
		incarnation := make([]byte, 16)
		_, _ = rand.Read(incarnation) // it never fails
		_, err := m.proposeInternal(ctx, m.fillInternalCommand(&fsmpb.Command{Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
			ClusterId: uuid.NewString(), IncarnationId: incarnation, FeatureLevel: m.cfg.bootstrapLevel,
		}}}))
		if err != nil {
			m.log.Warn("propose the first command of the cluster", "error", err)
			sleep(ctx, 100*time.Millisecond)
		}
	}
}

// own makes a command this member's.
func (m *Member) fillInternalCommand(cmd *fsmpb.Command) *fsmpb.Command {
	cmd.RequestId = make([]byte, requestIDLen)
	_, _ = rand.Read(cmd.RequestId) // it never fails
	cmd.Actor = m.cfg.Credentials.Identity().Actor()
	cmd.ProposedIndex = m.machine.index.Load()
	return cmd
}

const (
	verifyTimeout   = 2 * time.Second
	maxVerifyMisses = 3
)

// watchMainLoop ends the process when raft's main loop no longer answers: its
// heartbeats would keep it leader for ever (S132).
func (m *Member) watchMainLoop(ctx context.Context) {
	misses := 0
	runEvery(ctx, time.Second, func() {
		misses++
		verifyCtx, cancel := context.WithTimeout(context.Background(), verifyTimeout)
		defer cancel()
		stop := context.AfterFunc(ctx, cancel)
		defer stop()
		if err := await(verifyCtx, m.verifyLeader); err == nil || verifyCtx.Err() == nil || ctx.Err() != nil {
			misses = 0
		}
		if misses >= maxVerifyMisses {
			m.fatal(ExitRestart, "the main loop of this leader is blocked")
		}
	})
}

// onDiskHang ends the process when the disk does not answer; a leader asks for the
// transfer first (S27).
func (m *Member) onDiskHang(operation string) {
	select {
	case <-m.started:
		m.resign("the disk hangs")
	default: // it does not even come up
	}
	m.fatal(ExitRestart, "the disk hangs: "+operation)
}

// leaderDuties is what a leader knows of its members in one term.
type leaderDuties struct {
	member         *Member
	caughtUpProbes map[string]int // how many looks found a non-voter close behind
}

// probeMembers asks all members how they are, and does what follows from it.
func (r *leaderDuties) probeMembers(ctx context.Context) {
	m := r.member
	if m.hashDispute.err() != nil {
		m.checkpoint(ctx)
	}
	statuses := m.queryStatuses(ctx, m.cfg.probeInterval(), &raftpb.StatusRequest{DisagreementAt: m.hashDispute.activeIndex()})
	m.checkClock(statuses)
	r.promoteCaughtUp(ctx, statuses)
}

// memberStatus is one member's answer.
type memberStatus struct {
	*raftpb.StatusResponse
	clockOffset time.Duration // of its clock against this member's
	roundTrip   time.Duration
}

// queryStatuses asks every other member for its status, at once; who does not answer in
// time is left out.
func (m *Member) queryStatuses(ctx context.Context, timeout time.Duration, req *raftpb.StatusRequest) map[raft.ServerID]memberStatus {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	statuses := make(map[raft.ServerID]memberStatus)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, s := range m.servers() {
		if string(s.ID) == m.id {
			continue
		}
		wg.Go(func() {
			if a, err := m.queryStatus(ctx, s, req); err == nil {
				mu.Lock()
				statuses[s.ID] = a
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return statuses
}

// queryStatus asks one member; an answer in another one's name is none.
func (m *Member) queryStatus(ctx context.Context, s raft.Server, req *raftpb.StatusRequest) (memberStatus, error) {
	conn, err := m.peers.dial(string(s.ID), string(s.Address))
	if err != nil {
		return memberStatus{}, err
	}
	sent, start := m.cfg.now(), time.Now()
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
