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

// reign does a leader's duties for as long as this member leads.
func (m *Member) reign(ctx context.Context) {
	for ctx.Err() == nil {
		v := m.lead.now()
		if v.leading {
			m.term(v)
		}
		select {
		case <-v.over.Done():
		case <-ctx.Done():
		}
	}
}

// term is one term of this leader.
func (m *Member) term(v *view) {
	ctx, cancel := context.WithCancel(v.over)
	defer cancel()
	stop := context.AfterFunc(m.closing, cancel)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { m.checkSelf(ctx) })
	if !m.barrier(ctx, v.term) {
		return
	}
	m.begin(ctx)
	wg.Go(func() { m.sweep(ctx) })
	r := &regency{member: m, calm: make(map[string]int)}
	wg.Go(func() { every(ctx, m.cfg.pace(), func() { r.tend(ctx) }) })
	for {
		m.checkpoint(ctx)
		select {
		case <-m.due:
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
			pause(ctx, 10*time.Millisecond)
			continue
		}
		if entry, ok := future.(raft.IndexFuture); ok {
			m.machine.passed(entry.Index())
		}
		m.gate.open(term)
		return true
	}
	return false
}

// begin proposes the first command of a new cluster.
func (m *Member) begin(ctx context.Context) {
	for ctx.Err() == nil && m.machine.cluster().ID == "" {
		incarnation := make([]byte, 16)
		_, _ = rand.Read(incarnation) // it never fails
		_, err := m.append(ctx, m.own(&fsmpb.Command{Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
			ClusterId: uuid.NewString(), IncarnationId: incarnation, FeatureLevel: m.cfg.level,
		}}}))
		if err != nil {
			m.log.Warn("propose the first command of the cluster", "error", err)
			pause(ctx, 100*time.Millisecond)
		}
	}
}

// own makes a command this member's.
func (m *Member) own(cmd *fsmpb.Command) *fsmpb.Command {
	cmd.RequestId = make([]byte, requestIDLen)
	_, _ = rand.Read(cmd.RequestId) // it never fails
	cmd.Actor = m.cfg.Credentials.Identity().Actor()
	cmd.ProposedIndex = m.machine.index.Load()
	return cmd
}

const (
	verifyTime   = 2 * time.Second
	verifyMisses = 3
)

// checkSelf ends the process when raft's main loop no longer answers: its
// heartbeats would keep it leader for ever (S132).
func (m *Member) checkSelf(ctx context.Context) {
	misses := 0
	every(ctx, time.Second, func() {
		misses++
		limited, cancel := context.WithTimeout(context.Background(), verifyTime)
		defer cancel()
		stop := context.AfterFunc(ctx, cancel)
		defer stop()
		if err := await(limited, m.verifyLeader); err == nil || limited.Err() == nil || ctx.Err() != nil {
			misses = 0
		}
		if misses >= verifyMisses {
			m.fatal(ExitRestart, "the main loop of this leader is blocked")
		}
	})
}

// hung ends the process when the disk does not answer; a leader asks for the
// transfer first (S27).
func (m *Member) hung(what string) {
	select {
	case <-m.started:
		m.resign("the disk hangs")
	default: // it does not even come up
	}
	m.fatal(ExitRestart, "the disk hangs: "+what)
}

// regency is what a leader knows of its members in one term.
type regency struct {
	member *Member
	calm   map[string]int // how many looks found a non-voter close behind
}

// tend asks all members how they are, and does what follows from it.
func (r *regency) tend(ctx context.Context) {
	m := r.member
	if m.dispute.err() != nil {
		m.checkpoint(ctx)
	}
	seen := m.askAll(ctx, m.cfg.pace(), &raftpb.StatusRequest{DisagreementAt: m.dispute.at()})
	m.judgeClock(seen)
	r.promote(ctx, seen)
}

// seen is one member's answer.
type seen struct {
	*raftpb.StatusResponse
	offset time.Duration // of its clock against this member's
	trip   time.Duration
}

// askAll asks every other member for its status, at once; who does not answer in
// time is left out.
func (m *Member) askAll(ctx context.Context, limit time.Duration, req *raftpb.StatusRequest) map[raft.ServerID]seen {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answers := make(map[raft.ServerID]seen)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, s := range m.servers() {
		if string(s.ID) == m.id {
			continue
		}
		wg.Go(func() {
			if a, err := m.askOne(ctx, s, req); err == nil {
				mu.Lock()
				answers[s.ID] = a
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return answers
}

// askOne asks one member; an answer in another one's name is none.
func (m *Member) askOne(ctx context.Context, s raft.Server, req *raftpb.StatusRequest) (seen, error) {
	conn, err := m.peers.dial(string(s.ID), string(s.Address))
	if err != nil {
		return seen{}, err
	}
	sent, mono := m.cfg.now(), time.Now()
	resp, err := raftpb.NewMemberClient(conn).Status(ctx, req)
	if err == nil && resp.GetMemberId() != string(s.ID) {
		err = fmt.Errorf("member %s answered for member %s", resp.GetMemberId(), s.ID)
	}
	if err != nil {
		return seen{}, err
	}
	trip := time.Since(mono)
	middle := sent.Add(trip / 2).UnixNano()
	return seen{StatusResponse: resp, offset: time.Duration(resp.GetClockUnixNano() - middle), trip: trip}, nil
}
