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
	// process is random, of this life of the process: it tells it from one that runs on
	// a copy of the data folder.
	process string

	storage   *storage
	journal   *journal.Journal
	machine   *machine
	mux       *mux
	transport *transport
	raft      *raft.Raft
	groups    *groups
	forwards  *queue[*forwarded]
	server    *grpc.Server
	peers     *dialer
	hub       *hub
	metrics   *metrics

	lead          *leadership
	gate          *termGate
	verifies      verifies
	leaderReads   *rounds
	followerReads *rounds

	disk       *diskGuard
	clock      clockCheck
	dispute    dispute
	due        chan struct{}          // a checkpoint
	swept      chan struct{}          // a sweep is under way
	stretch    atomic.Uint64          // of CheckpointEvery entries, the last one begun
	caughtUp   atomic.Bool            // with what was committed when it started
	admitted   atomic.Bool            // the newest configuration that was committed and received has this member (S68)
	joined     atomic.Bool            // the leader said so in this life of the process
	founding   atomic.Bool            // it is to make a new cluster
	twin       twin                   // at the address that the configuration has for this member
	apart      atomic.Pointer[string] // why it is in no cluster yet
	membership sync.Mutex             // one change at a time (S141)

	started chan struct{} // closed when all of the above is there, and runs
	closing context.Context
	stop    context.CancelFunc
	wg      sync.WaitGroup
	dead    sync.Once
	ending  sync.Once
	ended   error
	why     atomic.Pointer[string] // it ended itself
}

// start runs something until the member closes.
func (m *Member) start(run func(context.Context)) {
	m.wg.Add(1)
	go func() {
		defer m.wg.Done()
		run(m.closing)
	}()
}

// every calls fn at an interval until the context is done.
func every(ctx context.Context, interval time.Duration, fn func()) {
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
func (m *Member) fatal(code int, what string) {
	m.dead.Do(func() {
		m.why.Store(&what)
		m.log.Error("this member ends its process", "code", code, "why", what)
		m.cfg.Exit(code)
		go func() {
			<-m.started
			m.machine.halted.Store(true)
			m.end(false)
		}()
	})
}

// Close transfers leadership if it has it, and stops.
func (m *Member) Close() error {
	m.end(true)
	return m.ended
}

func (m *Member) end(transfer bool) {
	m.ending.Do(func() {
		if transfer && len(m.voters()) > 1 {
			m.resign("this member is stopping")
		}
		m.ended = m.shutdown()
	})
}

// stopPatience bounds how long calls of peers are waited for, and the answers of raft.
const stopPatience = time.Second

// shutdown stops what asks before what answers, and closes the files last.
func (m *Member) shutdown() error {
	m.stop()
	m.stopServer()
	m.verifies.end(stopPatience)
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
	t := time.NewTimer(stopPatience)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		m.server.Stop()
		<-done
	}
}
