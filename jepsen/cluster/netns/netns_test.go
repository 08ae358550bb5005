package netns

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// echoNetwork is a network of hosts that answer on port 7.
func echoNetwork(t *testing.T, names ...string) (*Network, map[string]*Host) {
	t.Helper()
	if why := WhyUnavailable(); why != "" {
		t.Skip("skipped: " + why)
	}
	n, err := New(t.Context())
	require.NoError(t, err)
	t.Cleanup(n.Close)
	hosts := map[string]*Host{}
	for _, name := range names {
		h, err := n.Add(t.Context(), name)
		require.NoError(t, err)
		listener, err := h.Listen(t.Context(), "tcp", h.Addr()+":7")
		require.NoError(t, err)
		t.Cleanup(func() { _ = listener.Close() })
		go echo(listener)
		hosts[name] = h
	}
	return n, hosts
}

// echo answers each line with itself.
func echo(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			for s := bufio.NewScanner(conn); s.Scan(); {
				_, _ = fmt.Fprintln(conn, s.Text())
			}
		}()
	}
}

// reaches asserts that a host can talk to another.
func reaches(t *testing.T, from, to *Host) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	conn, err := from.Dial(ctx, "tcp", to.Addr()+":7")
	require.NoError(t, err, "%s to %s", from.Name(), to.Name())
	require.NoError(t, conn.Close())
}

// doesNotReach asserts that a host does not connect to another, of which packets are dropped.
func doesNotReach(t *testing.T, from, to *Host) {
	t.Helper()
	dropped := func(h *Host) int {
		cut, lost, err := h.Dropped(t.Context())
		require.NoError(t, err)
		return cut + lost
	}
	before := dropped(from) + dropped(to)
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := from.Dial(ctx, "tcp", to.Addr()+":7")
		ended <- err
	}()
	for dropped(from)+dropped(to) == before {
		require.Empty(t, ended, "%s to %s ended although no packet was dropped", from.Name(), to.Name())
	}
	cancel()
	require.Error(t, <-ended, "%s to %s", from.Name(), to.Name())
}

func TestShapesCutWhatTheySay(t *testing.T) {
	n, h := echoNetwork(t, "a", "b", "c", "d")
	all := n.Hosts()
	for name, tc := range map[string]struct {
		shape Shape
		cut   string // pairs that do not talk
	}{
		"isolate": {Isolate(all, h["a"]), "ab ac ad"},
		"halves":  {Between(all[:2], all[2:]), "ac ad bc bd"},
		"bridge":  {Bridge(all, h["a"]), "bc bd"},
		"ring":    {Ring(all), "ac bd"},
		"chain":   {Ring(all[:3]), "ac"},
		"one way": {OneWay([]*Host{h["a"]}, []*Host{h["b"]}), "ab"},
		"nothing": {},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, n.Apply(t.Context(), tc.shape))
			for i, from := range all {
				for _, to := range all[i+1:] {
					check := reaches
					for at := 0; at+1 < len(tc.cut); at += 3 {
						if tc.cut[at:at+2] == from.Name()+to.Name() {
							check = doesNotReach
						}
					}
					check(t, from, to)
				}
			}
			require.NoError(t, n.Heal(t.Context()))
			require.Empty(t, n.Cut())
			reaches(t, h["a"], h["b"])
		})
	}
}

// One direction alone: what a says arrives, what is answered does not, and the other way round.
func TestOneWayIsOneWay(t *testing.T) {
	n, h := echoNetwork(t, "a", "b")
	require.NoError(t, n.Apply(t.Context(), OneWay([]*Host{h["a"]}, []*Host{h["b"]})))
	doesNotReach(t, h["a"], h["b"])
	cutAtA, _, err := h["a"].Dropped(t.Context())
	require.NoError(t, err)
	require.Zero(t, cutAtA, "a hears b")
	require.Equal(t, "a>b", n.Cut().String())
}

func TestResetEndsLiveConnections(t *testing.T) {
	_, h := echoNetwork(t, "a", "b")
	conn, err := h["a"].Dial(t.Context(), "tcp", h["b"].Addr()+":7")
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintln(conn, "hello")
	require.NoError(t, err)
	_, err = bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	ended, err := h["b"].Reset(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, ended)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(harness.Patience)))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorContains(t, err, "reset")
	reaches(t, h["a"], h["b"])
}

func TestLoseLosesPackets(t *testing.T) {
	_, h := echoNetwork(t, "a", "b")
	require.NoError(t, h["b"].Lose(t.Context(), 100))
	doesNotReach(t, h["a"], h["b"])
	_, lost, err := h["b"].Dropped(t.Context())
	require.NoError(t, err)
	require.NotZero(t, lost)
	require.NoError(t, h["b"].Lose(t.Context(), 0))
	reaches(t, h["a"], h["b"])
}

// Nothing of a network is left in this process or in the host's own network.
func TestNothingIsLeft(t *testing.T) {
	before := interfaces(t)
	t.Run("a network", func(t *testing.T) {
		_, h := echoNetwork(t, "a", "b")
		reaches(t, h["a"], h["b"])
	})
	// One of a test before this may have been on its way out: the kernel removes them behind the call.
	require.Subset(t, before, interfaces(t))
	own, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	tasks, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		for _, task := range tasks {
			space, err := os.Readlink("/proc/self/task/" + task.Name() + "/ns/net")
			if err == nil && space != own {
				return false
			}
		}
		return true
	}, harness.Patience, 10*time.Millisecond)
}

// interfaces are the names of this host's network interfaces.
func interfaces(t *testing.T) []string {
	t.Helper()
	found, err := net.Interfaces()
	require.NoError(t, err)
	names := make([]string, 0, len(found))
	for _, one := range found {
		names = append(names, one.Name)
	}
	return names
}
