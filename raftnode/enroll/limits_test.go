package enroll

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/raftnode/enroll/enrollpb"
)

func TestRequestsAreLimited(t *testing.T) {
	l := newLab(t)
	s := &Server{Config: Config{Cluster: l, Logger: slog.New(slog.DiscardHandler), Error: func(err error) error { return err }}}
	s.limits = newLimits()
	from := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 4000}
	for range burst { // none is left for an hour
		require.NoError(t, s.limits.checkPeer(from, time.Now().Add(time.Hour)))
	}
	ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: from.IP, Port: 4001}})
	for range 2 {
		_, err := s.Enroll(ctx, &enrollpb.EnrollRequest{})
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
	}
}

// A peer without a token asks as often as it can: others enrol all the same, until those whose tokens are good are too many.
func TestAFloodKeepsNobodyElseFromEnrolling(t *testing.T) {
	now := time.Now()
	at := func(text string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text)) }
	l := newLimits()
	for n := range 10 * burst {
		require.Equal(t, n < burst, l.checkPeer(at("10.0.0.7:1"), now) == nil)
		require.Equal(t, n < burst, l.checkPeer(at(fmt.Sprintf("[fd00::%x]:1", n+1)), now) == nil, "a host has a network's addresses")
	}
	require.NoError(t, l.checkPeer(at("10.0.0.8:1"), now))
	require.NoError(t, l.checkPeer(at("[fd00:0:0:1::1]:1"), now))
	require.Error(t, l.checkPeer(at("[::ffff:10.0.0.7]:1"), now), "the same host")
	require.NoError(t, l.checkPeer(at("10.0.0.7:1"), now.Add(time.Second)))
	for n := range 2 * burst {
		require.Equal(t, n < burst, l.checkAll(now) == nil)
	}
}

func TestPeersThatAreCountedApartAreBounded(t *testing.T) {
	now := time.Now()
	l := newLimits()
	for n := range maxPeers + 100 {
		from := &net.TCPAddr{IP: net.IPv4(10, byte(n>>16), byte(n>>8), byte(n))}
		require.NoError(t, l.checkPeer(from, now))
		require.LessOrEqual(t, len(l.peers), maxPeers)
	}
	require.NoError(t, l.checkPeer(&net.TCPAddr{IP: net.IPv4(11, 0, 0, 1)}, now.Add(time.Hour)))
	require.Len(t, l.peers, 1, "who may ask as if new is forgotten")
}

// One peer's connections do not take the room of others', and those that end make room again.
func TestConnectionsOfOnePeerAreBounded(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := LimitConnections(inner)
	t.Cleanup(func() { _ = l.Close() })
	accepted := make(chan net.Conn, maxConnections)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func(from string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := d.Dial("tcp", inner.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	var first net.Conn
	for range maxPeerConnections {
		dial("127.0.0.1")
		first = <-accepted
	}
	_, err = dial("127.0.0.1").Read(make([]byte, 1))
	require.Error(t, err, "it is closed")
	dial("127.0.0.2")
	require.Equal(t, "127.0.0.2", prefixOf((<-accepted).RemoteAddr()).Addr().String())
	for range 2 {
		require.NotPanics(t, func() { _ = first.Close() })
	}
	dial("127.0.0.1")
	<-accepted
	_, err = dial("127.0.0.1").Read(make([]byte, 1))
	require.Error(t, err, "closing one twice makes room for one")
}

// Requests without a good token take nothing of what those with one have.
func TestWhoHasNoTokenTakesNothingOfOthersLimit(t *testing.T) {
	l := newLab(t)
	s := &Server{Config: Config{Cluster: l, Logger: slog.New(slog.DiscardHandler), Error: func(err error) error { return err }}, limits: newLimits()}
	for n := range 3 * burst {
		ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, byte(n)), Port: 4001}})
		_, err := s.Enroll(ctx, &enrollpb.EnrollRequest{})
		require.Error(t, err)
		require.NotEqual(t, codes.ResourceExhausted, status.Code(err))
	}
	for range burst {
		require.NoError(t, s.limits.checkAll(time.Now()))
	}
}
