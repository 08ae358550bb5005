package raftnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/raftnode/journal"
)

// Member is one running Raft member.
type Member struct {
	cfg Config
	log *slog.Logger
	id  string // Raft's
	// processID is random, of this life of the process: it tells it from one that runs on
	// a copy of the data folder.
	processID string

	storage   *storage
	journal   *journal.Journal
	machine   *machine
	mux       *mux
	transport *transport
	raft      *raft.Raft
	proposals *proposalBatcher
	forwards  *batchQueue[*forwardedCommand]
	server    *grpc.Server
	peers     *dialer
	watches   *watchHub
	metrics   *metrics

	tracker       *leaderTracker
	readGate      *termGate
	verifyCalls   verifyCalls
	leaderReads   *readBatcher
	followerReads *readBatcher

	diskGuard        *diskGuard
	clock            clockCheck
	hashDispute      hashDispute
	checkpointSignal chan struct{}          // a checkpoint
	sweepSignal      chan struct{}          // a sweep is under way
	checkpointWindow atomic.Uint64          // of CheckpointEvery entries, the last one begun
	caughtUp         atomic.Bool            // with what was committed when it started
	admitted         atomic.Bool            // the newest configuration that was committed and received has this member (S68)
	joined           atomic.Bool            // the leader said so in this life of the process
	bootstrapping    atomic.Bool            // it is to make a new cluster
	duplicate        duplicateMember        // at the address that the configuration has for this member
	joinError        atomic.Pointer[string] // why it is in no cluster yet
	membershipChange sync.Mutex             // one change at a time (S141)

	started       chan struct{} // closed when all of the above is there, and runs
	lifetime      context.Context
	cancel        context.CancelFunc
	wg            sync.WaitGroup
	fatalOnce     sync.Once
	terminateOnce sync.Once
	terminateErr  error
	fatalReason   atomic.Pointer[string] // it ended itself
}

// start runs something until the member closes.
func (m *Member) spawn(fn func(context.Context)) {
	m.wg.Add(1)
	go func() {
		defer m.wg.Done()
		fn(m.lifetime)
	}()
}

// runEvery calls fn at an interval until the context is done.
func runEvery(ctx context.Context, interval time.Duration, fn func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			fn()
		case <-ctx.Done():
			return
		}
	}
}

// fatal ends the process: going on could do harm. It returns only in tests.
func (m *Member) fatal(code int, reason string) {
	m.fatalOnce.Do(func() {
		m.fatalReason.Store(&reason)
		m.log.Error("this member ends its process", "code", code, "why", reason)
		m.cfg.Exit(code)
		go func() {
			<-m.started
			m.machine.halted.Store(true)
			m.terminate(false)
		}()
	})
}

// Close transfers leadership if it has it, and stops.
func (m *Member) Close() error {
	m.terminate(true)
	return m.terminateErr
}

func (m *Member) terminate(transfer bool) {
	m.terminateOnce.Do(func() {
		if transfer && len(m.voters()) > 1 {
			m.resign("this member is stopping")
		}
		m.terminateErr = m.shutdown()
	})
}

// shutdownGrace bounds how long calls of peers are waited for, and the answers of raft.
const shutdownGrace = time.Second

// shutdown stops what asks before what answers, and closes the files last.
func (m *Member) shutdown() error {
	m.cancel()
	m.stopServer()
	m.verifyCalls.drain(shutdownGrace)
	err := m.raft.Shutdown().Error()
	m.transport.CloseStreams()
	errs := []error{err, m.peers.close(), m.mux.Close()}
	m.wg.Wait()
	m.metrics.unregister()
	errs = append(errs, m.journal.Close(), m.storage.close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the member: %w", err)
	}
	return nil
}

func (m *Member) stopServer() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.server.GracefulStop()
	}()
	t := time.NewTimer(shutdownGrace)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		m.server.Stop()
		<-done
	}
}
