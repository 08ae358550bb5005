package raftnode

import (
	"context"
	"crypto/rand"
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
		m.reader.readGate.open(term)
		return true
	}
	return false
}

// begin proposes the first command of a new cluster.
func (m *Member) proposeClusterBootstrap(ctx context.Context) {
	for ctx.Err() == nil && m.machine.cluster().ID == "" {
		incarnation := make([]byte, 16)
		_, _ = rand.Read(incarnation) // it never fails
		_, err := m.proposer.proposeInternal(ctx, m.proposer.fillInternalCommand(&fsmpb.Command{Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
			ClusterId: uuid.NewString(), IncarnationId: incarnation, FeatureLevel: m.cfg.bootstrapLevel,
		}}}))
		if err != nil {
			m.log.Warn("propose the first command of the cluster", "error", err)
			sleep(ctx, 100*time.Millisecond)
		}
	}
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
		if err := await(verifyCtx, m.reader.verifyLeader); err == nil || verifyCtx.Err() == nil || ctx.Err() != nil {
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
		m.tracker.resign("the disk hangs")
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
	statuses := m.peers.queryStatuses(ctx, m.cfg.probeInterval(), &raftpb.StatusRequest{DisagreementAt: m.hashDispute.activeIndex()})
	m.checkClock(statuses)
	r.promoteCaughtUp(ctx, statuses)
}
