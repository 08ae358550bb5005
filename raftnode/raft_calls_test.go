package raftnode

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// TestRaftShutsDownAfterPendingVerifyCalls checks that pending verifications are answered before Raft is shut down, and none begins after that.
func TestRaftShutsDownAfterPendingVerifyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v raftCalls
		answer, asked, ended := make(chan error), make(chan error, 1), make(chan struct{})
		go func() { asked <- v.do(func() error { return <-answer }) }()
		synctest.Wait()
		go func() { v.drain(time.Hour); close(ended) }()
		synctest.Wait()
		select {
		case <-ended:
			t.Fatal("it ended before the answer")
		default:
		}
		require.ErrorIs(t, v.do(func() error { return nil }), raft.ErrRaftShutdown)
		lost := errors.New("leadership was lost")
		answer <- lost
		require.ErrorIs(t, <-asked, lost)
		<-ended
	})
}

// S27, S132: a blocked main loop does not prevent the member's shutdown.
func TestS27_ShutdownDoesNotWaitForABlockedMainLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v raftCalls
		answer := make(chan error)
		go func() { _ = v.do(func() error { return <-answer }) }()
		synctest.Wait()
		began := time.Now()
		v.drain(time.Second)
		require.Equal(t, time.Second, time.Since(began))
		close(answer)
	})
}

// A member that closes gives raft no further commands: raft would not complete them.
func TestNoProposalIsSentOnceTheMemberCloses(t *testing.T) {
	var calls raftCalls
	calls.drain(0)
	g := newProposalBatcher(&calls)
	p, err := g.enqueue([]byte("late"))
	require.NoError(t, err)
	g.send([]*proposal{p}, func() {}) // g.raft is nil
	_, err = awaitResult(t.Context(), doneContext(), p.done)
	require.ErrorIs(t, err, ErrShutdown)
}

func doneContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
