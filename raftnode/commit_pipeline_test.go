package raftnode

import (
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// tcpStream is a raft.StreamLayer without targets.
type tcpStream struct{ net.Listener }

func (s tcpStream) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	return net.Dial("tcp", s.Addr().String())
}

// pipelineToSelf is a pipeline to the transport that opened it, whose calls answer handles.
func pipelineToSelf(t *testing.T, answer func(raft.RPC)) (*transport, raft.AppendPipeline) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	tr := newTransport(tcpStream{listener}, testTimeout, &Config{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	rpcs := tr.Consumer()
	go func() {
		for {
			select {
			case rpc := <-rpcs:
				answer(rpc)
			case <-tr.done:
				return
			}
		}
	}()
	p, err := tr.AppendEntriesPipeline("id", "address")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return tr, p
}

// sendMany sends on a pipeline until it fails, n times at most.
func sendMany(p raft.AppendPipeline, n int) error {
	for range n {
		if _, err := p.AppendEntries(&raft.AppendEntriesRequest{}, new(raft.AppendEntriesResponse)); err != nil {
			return err
		}
	}
	return nil
}

// A pipeline takes messages after raft stopped reading the answers at the first refusal.
func TestAPipelineWhoseAnswersAreNotReadTakesMessages(t *testing.T) {
	t.Parallel()
	_, p := pipelineToSelf(t, func(rpc raft.RPC) { rpc.Respond(&raft.AppendEntriesResponse{Success: false}, nil) })
	sent := make(chan error, 1)
	go func() { sent <- sendMany(p, 10) }()
	require.False(t, (<-p.Consumer()).Response().Success)
	select {
	case err := <-sent:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("the sender waits for a reader of the answers")
	}
}

// The shutdown of a transport's pipelines ends messages that are not answered, and no further one is opened.
func TestShutdownEndsPipelinesThatAreNotAnswered(t *testing.T) {
	t.Parallel()
	tr, p := pipelineToSelf(t, func(raft.RPC) {})
	sent := make(chan error, 1)
	go func() { sent <- sendMany(p, 10) }()
	for range 2 {
		tr.commitPipelines.shutdown()
		require.NoError(t, p.Close())
		tr.commitPipelines.notify(1, 1)
	}
	require.Error(t, <-sent)
	_, err := tr.AppendEntriesPipeline("id", "address")
	require.ErrorIs(t, err, raft.ErrTransportShutdown)
}

// A leader closes although a follower does not answer, because its disk is blocked.
func TestCloseDoesNotWaitForAFollowersAnswer(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	logs := blockingLogs{reached: make(chan struct{}), release: make(chan struct{})}
	c := newTestCluster(t, func(cfg *Config) {
		cfg.bootstrapLevel, cfg.HeartbeatTimeout, cfg.raftRPCTimeout = fsm.Level1, 500*time.Millisecond, time.Hour
	})
	leader := c.add("c1", nil)
	c.add("c2", nil)
	c.add("c3", func(cfg *Config) {
		cfg.openStorage = func(o store.Options) (*storage, error) {
			s, err := openStorage(o)
			if err == nil {
				logs.LogStore = s.logs
				s.logs = logs
			}
			return s, err
		}
	})
	t.Cleanup(func() { close(logs.release) })
	c.waitReady(3)
	require.Same(t, leader, c.leader())
	require.NoError(t, leader.raiseLevel(t, fsm.Level2))
	<-logs.reached
	leader.waitBlockedPipeline(t)
	leader.requireStops(t)
}

// waitBlockedPipeline waits until a message on one of the member's pipelines has not been taken for a while.
func (n *testMember) waitBlockedPipeline(t *testing.T) {
	t.Helper()
	blocked := make(map[*commitPipeline]int)
	eventually(t, func() error {
		n.transport.commitPipelines.mu.Lock()
		defer n.transport.commitPipelines.mu.Unlock()
		for l := range n.transport.commitPipelines.active {
			blocked[l]++
			if l.mu.TryLock() {
				l.mu.Unlock()
				blocked[l] = 0
			}
			if blocked[l] == 20 {
				return nil
			}
		}
		return errors.New("no pipeline is blocked")
	})
}
