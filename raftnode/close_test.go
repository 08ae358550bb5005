package raftnode

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// lossyConn loses what is written once the network drops packets: no answer comes, and no error.
type lossyConn struct {
	net.Conn
	lossy *atomic.Bool
	lost  *atomic.Int64
}

func (c lossyConn) Write(b []byte) (int, error) {
	if c.lossy.Load() {
		c.lost.Add(1)
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// A member closes although packets to the others are lost: neither a heartbeat, a vote nor a
// dial that is under way keeps it.
func TestCloseDoesNotWaitForALossyNetwork(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	var lossy atomic.Bool
	var lost, dialing atomic.Int64
	c := newThreeMembers(t, func(cfg *Config) {
		cfg.raftRPCTimeout = time.Hour
		cfg.dial = func(ctx context.Context, addr string) (net.Conn, error) {
			if lossy.Load() {
				dialing.Add(1)
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			return lossyConn{conn, &lossy, &lost}, err
		}
	})
	leader := c.leader()
	lossy.Store(true)
	t.Cleanup(func() { lossy.Store(false) })
	require.Eventually(t, func() bool { return lost.Load() > 0 && dialing.Load() > 0 }, testTimeout, time.Millisecond)
	leader.requireStops(t)
}

// requireStops stops a member whose calls may take longer than the test.
func (n *testMember) requireStops(t *testing.T) {
	t.Helper()
	stopped := make(chan error, 1)
	go func() { stopped <- n.stop() }()
	select {
	case err := <-stopped:
		require.NoError(t, err)
	case <-time.After(testTimeout):
		t.Fatal("the member waits for the answer of another")
	}
}

// A Raft snapshot that the other member does not take ends with the transport's calls: its time would
// grow with its size.
func TestEndCallsEndsTheInstallationOfASnapshot(t *testing.T) {
	t.Parallel()
	tr, _ := pipelineToSelf(t, func(raft.RPC) {}) // it reads the content only when raft does
	installed := make(chan error, 1)
	content, written := io.Pipe()
	go func() {
		installed <- tr.InstallSnapshot("id", "address", &raft.InstallSnapshotRequest{Size: 1 << 40}, new(raft.InstallSnapshotResponse), content)
	}()
	_, err := written.Write([]byte("a beginning")) // it is being sent
	require.NoError(t, err)
	require.NoError(t, written.Close())
	tr.endCalls()
	require.Error(t, <-installed)
	require.Error(t, tr.AppendEntries("id", "address", &raft.AppendEntriesRequest{}, new(raft.AppendEntriesResponse)))
}

// A member closes also while it is being sent a Raft snapshot whose rest does not come.
func TestCloseDoesNotWaitForTheRestOfASnapshot(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	leader := c.leader()
	follower := c.others(leader)[0]
	tr := newTransport(leader.mux.raftListener, testTimeout, &leader.Member.cfg)
	defer func() { require.NoError(t, tr.Close()) }()
	sent := make(chan error, 1)
	rest, content := net.Pipe()
	go func() {
		req := &raft.InstallSnapshotRequest{SnapshotVersion: raft.SnapshotVersionMax, Size: 1 << 40}
		req.ProtocolVersion = raft.ProtocolVersionMax
		sent <- tr.InstallSnapshot(raft.ServerID(follower.id), raft.ServerAddress(follower.addr), req, new(raft.InstallSnapshotResponse), content)
	}()
	_, err := rest.Write(make([]byte, 1<<20)) // more than a buffer: the call is under way
	require.NoError(t, err)
	eventually(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if await(ctx, follower.raft.VerifyLeader().Error) == nil || ctx.Err() == nil {
			return errors.New("the follower's main loop is not blocked")
		}
		return nil
	})
	follower.requireStops(t)
	tr.endCalls()
	require.NoError(t, rest.Close())
	require.Error(t, <-sent)
}

// tappedStream hands out the connections that it dials.
type tappedStream struct {
	raft.StreamLayer
	dialed chan net.Conn
}

func (s tappedStream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := s.StreamLayer.Dial(address, timeout)
	if err == nil {
		s.dialed <- conn
	}
	return conn, err
}

// A leader that stands still in the middle of sending a Raft snapshot keeps the follower for the time of
// one message, not for as long as it stands still: without the follower there may be no new leader.
func TestALeaderFrozenInASnapshotTransferDoesNotKeepTheFollower(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, func(cfg *Config) { cfg.raftRPCTimeout = time.Second })
	leader := c.leader()
	follower := c.others(leader)[0]
	stream := tappedStream{leader.mux.raftListener, make(chan net.Conn, 1)}
	tr := newTransport(stream, testTimeout, &leader.Member.cfg)
	defer func() { require.NoError(t, tr.Close()) }()
	rest, content := net.Pipe()
	sent := make(chan error, 1)
	go func() {
		req := &raft.InstallSnapshotRequest{SnapshotVersion: raft.SnapshotVersionMax, Size: 1 << 40}
		req.ProtocolVersion = raft.ProtocolVersionMax
		sent <- tr.InstallSnapshot(raft.ServerID(follower.id), raft.ServerAddress(follower.addr), req, new(raft.InstallSnapshotResponse), content)
	}()
	_, err := rest.Write(make([]byte, 1<<20)) // and no more
	require.NoError(t, err)
	conn := <-stream.dialed
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(testTimeout)))
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the follower still waits")
	eventually(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := await(ctx, follower.raft.VerifyLeader().Error); errors.Is(err, context.DeadlineExceeded) {
			return errors.New("the follower's main loop is blocked")
		}
		return nil
	})
	require.NoError(t, rest.Close())
	require.Error(t, <-sent)
}

// A connection of Raft may be silent between messages for any time, and not inside of one.
func TestAReceivedConnectionWaitsForTheBeginningOfAMessageOnly(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer func() { require.NoError(t, near.Close()) }()
	deadlines := &deadlineConn{Conn: far}
	c := &receivedConn{Conn: deadlines, timeout: time.Hour}
	read := func(want string) {
		go func() { _, _ = near.Write([]byte(want)) }()
		got := make([]byte, len(want))
		_, err := io.ReadFull(c, got)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	read("begin")
	require.True(t, deadlines.last.IsZero(), "a message may begin at any time")
	read("more")
	require.False(t, deadlines.last.IsZero(), "and goes on, or is given up")
	go func() { _, _ = near.Read(make([]byte, 10)) }()
	_, err := c.Write([]byte("answer"))
	require.NoError(t, err)
	read("next")
	require.True(t, deadlines.last.IsZero(), "it was answered")
	c.timeout = 0
	for range 2 {
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(t, err, errStalled)
	}
	_, err = near.Write([]byte("late"))
	require.ErrorIs(t, err, io.ErrClosedPipe, "the sender learns of it")
}

// deadlineConn keeps the read deadline that was set last.
type deadlineConn struct {
	net.Conn
	last time.Time
}

func (c *deadlineConn) SetReadDeadline(at time.Time) error {
	c.last = at
	return c.Conn.SetReadDeadline(at)
}
