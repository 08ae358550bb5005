package netns

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// A detour leads connections to a port of the host itself, which learns where they were meant to go; what is marked goes there.
func TestDetour(t *testing.T) {
	_, h := echoNetwork(t, "a", "b")
	listener, err := h["a"].Listen(t.Context(), "tcp", "0.0.0.0:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	require.NoError(t, h["a"].Detour(t.Context(), listener.Addr().(*net.TCPAddr).Port))

	conn, err := h["a"].Dial(t.Context(), "tcp", h["b"].Addr()+":7")
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	came, err := listener.Accept()
	require.NoError(t, err)
	defer func() { _ = came.Close() }()
	meant, err := Destination(came.(*net.TCPConn))
	require.NoError(t, err)
	require.Equal(t, h["b"].Addr()+":7", meant)

	marked, err := h["a"].DialMarked(t.Context(), "tcp", meant)
	require.NoError(t, err)
	requireEcho(t, marked)
	require.NoError(t, h["a"].Detour(t.Context(), 0))
	direct, err := h["a"].Dial(t.Context(), "tcp", meant)
	require.NoError(t, err)
	requireEcho(t, direct)
}

func requireEcho(t *testing.T, conn net.Conn) {
	t.Helper()
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(harness.Patience)))
	_, err := fmt.Fprintln(conn, "hello")
	require.NoError(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "hello\n", line)
}
