package hostcheck

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// freePort is a port that no process has on any of the loopback addresses of the tests.
func freePort(t *testing.T) uint32 {
	l, err := net.Listen("tcp", "127.0.0.2:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	n, err := strconv.ParseUint(port, 10, 16)
	require.NoError(t, err)
	return uint32(n)
}

func TestHostsReachEachOtherOnAPortThatNoReplicaHas(t *testing.T) {
	port := freePort(t)
	a, b := &PairProbe{Pause: time.Millisecond}, &PairProbe{Pause: time.Millisecond}
	t.Cleanup(a.Close)
	t.Cleanup(b.Close)
	for range 2 {
		require.Empty(t, a.Listen(t.Context(), "127.0.0.2", port).Err)
		require.Empty(t, b.Listen(t.Context(), "127.0.0.3", port).Err)
		for _, reached := range [][]Reach{a.Reach(t.Context(), dial, []string{"127.0.0.3"}, port), b.Reach(t.Context(), dial, []string{"127.0.0.2"}, port)} {
			require.Len(t, reached, 1)
			require.Empty(t, reached[0].Err)
		}
	}
	b.Close()
	b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	refused := a.Reach(ctx, dial, []string{"127.0.0.3"}, port)
	require.True(t, refused[0].Refused || refused[0].Err == "no answer", refused[0].Err)
	require.NotEmpty(t, refused[0].Err)
}

// A host may be asked before the other one listens.
func TestAHostThatBeginsToListenLaterIsReached(t *testing.T) {
	port := freePort(t)
	late := &PairProbe{}
	t.Cleanup(late.Close)
	attempts := 0
	dialing := func(ctx context.Context, address string) error {
		if attempts++; attempts == 3 {
			require.Empty(t, late.Listen(ctx, "127.0.0.3", port).Err)
		}
		return dial(ctx, address)
	}
	reached := (&PairProbe{Pause: time.Millisecond}).Reach(t.Context(), dialing, []string{"127.0.0.3"}, port)
	require.Empty(t, reached[0].Err)
	require.Equal(t, 3, attempts)
}

func TestAHostSaysWhyItCannotListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.4:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	port := uint32(taken.Addr().(*net.TCPAddr).Port)
	p := &PairProbe{}
	for range 2 {
		l := p.Listen(t.Context(), "127.0.0.4", port)
		require.Equal(t, "address already in use", l.Err)
		require.False(t, l.NotOurs)
		l = p.Listen(t.Context(), "192.0.2.1", port)
		require.True(t, l.NotOurs, l.Err)
	}
}

// A timer that fired while the listening was renewed does not end it.
func TestATimerOfBeforeEndsNoListeningThatWasRenewed(t *testing.T) {
	port, p := freePort(t), &PairProbe{}
	t.Cleanup(p.Close)
	address := p.Listen(t.Context(), "127.0.0.2", port).Address
	before := p.listening[address]
	require.Empty(t, p.Listen(t.Context(), "127.0.0.2", port).Err)
	renewed := p.listening[address]
	p.expire(address, before)
	require.NoError(t, dial(t.Context(), address))
	for range 2 {
		p.expire(address, renewed)
		require.Error(t, dial(t.Context(), address))
	}
}

// A question with another port does not end the listening for the one that goes on.
func TestAHostListensForSomeQuestionsAtATime(t *testing.T) {
	p, addresses := &PairProbe{}, []string{}
	t.Cleanup(p.Close)
	for range maxListening {
		l := p.Listen(t.Context(), "127.0.0.2", freePort(t))
		require.Empty(t, l.Err)
		addresses = append(addresses, l.Address)
	}
	for range 2 {
		require.Nil(t, p.Listen(t.Context(), "127.0.0.2", freePort(t)), "too many")
		for _, address := range addresses {
			require.NoError(t, dial(t.Context(), address))
		}
	}
	p.Close()
	for _, address := range addresses {
		require.Error(t, dial(t.Context(), address))
	}
	require.NotNil(t, p.Listen(t.Context(), "127.0.0.2", freePort(t)))
}

// Connections that wait in the kernel's queue would fill it, while one question after the other renews the listening.
func TestConnectionsToAHostThatListensEnd(t *testing.T) {
	p := &PairProbe{}
	t.Cleanup(p.Close)
	address := p.Listen(t.Context(), "127.0.0.2", freePort(t)).Address
	for range 2 {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err = conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, conn.Close())
	}
}

func TestAddressesAreDialledSomeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		all := ReachAll(t.Context(), func(context.Context, string) error {
			defer now.Add(-1)
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second) // of the bubble's time: all that may begin have begun by then
			return nil
		}, make([]string, 4*pairsAtOnce))
		require.Len(t, all, 4*pairsAtOnce)
		require.LessOrEqual(t, most.Load(), int64(pairsAtOnce))
	})
}
