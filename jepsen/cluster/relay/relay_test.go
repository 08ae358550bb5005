package relay

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// echoed is a relay in front of a server that answers each line with itself, and counts its connections.
func echoed(t *testing.T, w Weather) (*Relay, chan net.Conn) {
	t.Helper()
	server := listen(t)
	came := make(chan net.Conn, 16)
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			came <- conn
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	r := Start(Config{Listener: listen(t), Destination: func(*net.TCPConn) (string, error) { return server.Addr().String(), nil },
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}, Seed: 1})
	r.Set(w)
	t.Cleanup(r.Close)
	return r, came
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func connect(t *testing.T, r *Relay) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(harness.Patience)))
	return conn
}

func TestEveryByteArrivesInOrder(t *testing.T) {
	for name, w := range map[string]Weather{
		"fair":    {},
		"late":    {Latency: 5 * time.Millisecond, Jitter: 20 * time.Millisecond},
		"slow":    {Rate: 1 << 20},
		"lossy":   {Stall: 500, StallFor: 10 * time.Millisecond},
		"doubled": {Duplicate: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := echoed(t, w)
			conn := connect(t, r)
			text := strings.Repeat("a line of some length\n", 10_000)
			go func() {
				_, _ = io.WriteString(conn, text)
				_ = conn.(*net.TCPConn).CloseWrite()
			}()
			back, err := io.ReadAll(conn)
			require.NoError(t, err)
			require.Equal(t, text, string(back))
			require.Equal(t, w != Weather{} && !w.Duplicate, r.Count().Waited.Load() > 0)
		})
	}
}

func TestLatencyIsWaitedFor(t *testing.T) {
	r, _ := echoed(t, Weather{Latency: 50 * time.Millisecond})
	conn := connect(t, r)
	began := time.Now()
	_, err := io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	_, err = bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond, "there and back")
}

func TestResetResetsBothEnds(t *testing.T) {
	r, came := echoed(t, Weather{Reset: 1000})
	conn := connect(t, r)
	_, err := io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.True(t, errors.Is(err, syscall.ECONNRESET), "%v", err)
	<-came
	require.EqualValues(t, 1, r.Count().Resets.Load())
}

func TestADuplicateArrivesTwice(t *testing.T) {
	r, came := echoed(t, Weather{Duplicate: true})
	conn := connect(t, r)
	_, err := io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "hello\n", line)
	<-came
	<-came
	require.EqualValues(t, 1, r.Count().Duplicates.Load())
}

func TestTheWeatherOfOpenConnectionsChanges(t *testing.T) {
	r, _ := echoed(t, Weather{})
	conn := connect(t, r)
	lines := bufio.NewReader(conn)
	for _, w := range []Weather{{}, {Latency: 20 * time.Millisecond}, {}} {
		r.Set(w)
		before := r.Count().Waited.Load()
		_, err := io.WriteString(conn, "hello\n")
		require.NoError(t, err)
		_, err = lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, w.Latency > 0, r.Count().Waited.Load() > before)
	}
}

// What a slow link still holds arrives as soon as the link is fast.
func TestFairWeatherEndsAllWaiting(t *testing.T) {
	r, _ := echoed(t, Weather{Rate: 1})
	conn := connect(t, r)
	text := strings.Repeat("a line of some length\n", 1000)
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.Count().Waited.Load() > int64(time.Hour) }, harness.Patience, time.Millisecond)
	r.Set(Weather{})
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	back, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, text, string(back))
}
