package raftnode

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// leader does a leader's duties, term by term.
type leader struct {
	*core
	proposer    *proposer
	reader      *reader
	membership  *membership
	checkpoints *checkpoints
	clock       clockCheck
	sweepSignal chan struct{} // a sweep is pending
}

// leaderLoop does a leader's duties for as long as this member leads.
func (l *leader) leaderLoop(ctx context.Context) {
	for ctx.Err() == nil {
		v := l.tracker.current()
		if v.leading {
			l.leadTerm(v)
		}
		select {
		case <-v.ctx.Done():
		case <-ctx.Done():
		}
	}
}

// leadTerm works through one term of this leader.
func (l *leader) leadTerm(v *leaderInfo) {
	ctx, cancel := context.WithCancel(v.ctx)
	defer cancel()
	stop := context.AfterFunc(l.lifetime, cancel)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { l.watchMainLoop(ctx) })
	wg.Go(func() { l.watchHeartbeats(ctx, v.term) })
	if !l.barrier(ctx, v.term) {
		return
	}
	l.proposeClusterBootstrap(ctx)
	wg.Go(func() { l.sweep(ctx) })
	d := &leaderDuties{leader: l, caughtUpProbes: make(map[string]int)}
	wg.Go(func() { runEvery(ctx, l.cfg.probeInterval(), func() { d.probeMembers(ctx) }) })
	for {
		l.checkpoints.checkpoint(ctx)
		select {
		case <-l.checkpoints.signal:
		case <-ctx.Done():
			return
		}
	}
}

// barrier waits until everything that was committed before this term is applied
// here, and opens the read gate (S139).
func (l *leader) barrier(ctx context.Context, term uint64) bool {
	for ctx.Err() == nil {
		future := l.raft.Barrier(time.Second)
		if err := await(ctx, func() error { return l.raftCalls.do(future.Error) }); err != nil {
			sleep(ctx, 10*time.Millisecond)
			continue
		}
		if entry, ok := future.(raft.IndexFuture); ok {
			l.machine.advancePast(entry.Index())
		}
		l.reader.readGate.open(term)
		return true
	}
	return false
}

// proposeClusterBootstrap proposes the first command of a new cluster.
func (l *leader) proposeClusterBootstrap(ctx context.Context) {
	for ctx.Err() == nil && l.machine.cluster().ID == "" {
		incarnation := make([]byte, 16)
		_, _ = rand.Read(incarnation) // it never fails
		_, err := l.proposer.proposeInternal(ctx, l.proposer.fillInternalCommand(&fsmpb.Command{Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
			ClusterId: uuid.NewString(), IncarnationId: incarnation, FeatureLevel: l.cfg.bootstrapLevel,
		}}}))
		if err != nil {
			l.log.Warn("cannot propose the first command of the cluster", "error", err)
			sleep(ctx, 100*time.Millisecond)
		}
	}
}

const (
	verifyTimeout   = 2 * time.Second
	maxVerifyMisses = 3
)

// watchMainLoop exits when raft's main loop no longer answers: heartbeats come from other
// goroutines and would keep it leader, since raft steps down in its main loop only (S132).
func (l *leader) watchMainLoop(ctx context.Context) {
	misses := 0
	runEvery(ctx, time.Second, func() {
		misses++
		verifyCtx, cancel := context.WithTimeout(context.Background(), verifyTimeout)
		defer cancel()
		stop := context.AfterFunc(ctx, cancel)
		defer stop()
		if err := await(verifyCtx, l.reader.verifyLeader); err == nil || verifyCtx.Err() == nil || ctx.Err() != nil {
			misses = 0
		}
		if misses >= maxVerifyMisses {
			l.fatal(ExitRestart, "the main loop of this leader is blocked")
		}
	})
}
