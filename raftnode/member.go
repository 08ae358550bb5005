package raftnode

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/raftnode/journal"
)

// Member is one running Raft member.
type Member struct {
	*core
	journal *journal.Journal
	mux     *mux
	server  *grpc.Server
	watches *watchHub
	metrics *metrics

	joiner      *joiner
	retrier     *retrier
	reader      *reader
	membership  *membership
	proposer    *proposer
	checkpoints *checkpoints
	leader      *leader

	diskGuard   *diskGuard
	slowSyncs   slowSyncs
	revocations *revocations

	terminateOnce sync.Once
	terminateErr  error
}

// Close transfers leadership if this member leads, and stops it.
func (m *Member) Close() error {
	m.terminate(true)
	return m.terminateErr
}

func (m *Member) terminate(transfer bool) {
	m.terminateOnce.Do(func() {
		if transfer && len(m.voters()) > 1 {
			m.tracker.resign("this member is stopping")
		}
		m.terminateErr = m.shutdown()
	})
}

// shutdownGrace bounds the wait for calls of peers, and for raft's answers.
const shutdownGrace = time.Second

// shutdown stops the callers before what they call, and closes the files last.
func (m *Member) shutdown() error {
	m.cancel()
	m.stopServer()
	m.raftCalls.drain(shutdownGrace)
	errs := []error{m.shutdownRaft(), m.peers.close(), m.mux.Close()}
	m.wg.Wait()
	m.metrics.unregister()
	errs = append(errs, m.journal.Close(), m.storage.close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the member: %w", err)
	}
	return nil
}

// shutdownRaft closes the connections before it waits for raft, whose calls to a member that does
// not answer end with their connections, as does the receipt of a Raft snapshot.
func (m *Member) shutdownRaft() error {
	stopped := m.raft.Shutdown()
	m.transport.endCalls()
	m.mux.raftConns.closeAll()
	m.transport.CloseStreams()
	err := stopped.Error()
	m.transport.CloseStreams() // those that came back to the pool meanwhile
	return err
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

// onDiskHang exits when the disk does not answer; a leader tries to transfer leadership
// first (S27).
func (m *Member) onDiskHang(operation string) {
	select {
	case <-m.started:
		m.tracker.resign("the disk hangs")
	default: // Open has not returned yet
	}
	m.fatal(ExitRestart, "the disk hangs: "+operation)
}
