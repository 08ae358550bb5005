package enroll

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var errTooMany = status.Error(codes.ResourceExhausted, "enrol: too many requests: ask again in a second")

// limits bound what is asked of this process: by each peer as long as nobody knows who it is, and by all together once their tokens are
// good. So one who has no token keeps nobody else from enrolling.
type limits struct {
	all *rate.Limiter

	mu    sync.Mutex
	peers map[netip.Prefix]*rate.Limiter
}

func newLimits() *limits {
	return &limits{all: newLimit(), peers: map[netip.Prefix]*rate.Limiter{}}
}

func newLimit() *rate.Limiter { return rate.NewLimiter(perSecond, burst) }

// checkPeer counts a request of an address. What cannot be told apart counts as one peer.
func (l *limits) checkPeer(from net.Addr, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := prefixOf(from)
	limit, known := l.peers[key]
	if !known {
		l.makeRoom(now)
		limit = newLimit()
		l.peers[key] = limit
	}
	if !limit.AllowN(now, 1) {
		return errTooMany
	}
	return nil
}

// checkAll counts a request whose token is good.
func (l *limits) checkAll(now time.Time) error {
	if !l.all.AllowN(now, 1) {
		return errTooMany
	}
	return nil
}

// makeRoom forgets peers that may ask as if they were new, and where there are none any one.
func (l *limits) makeRoom(now time.Time) {
	if len(l.peers) < maxPeers {
		return
	}
	for key, limit := range l.peers {
		if limit.TokensAt(now) >= burst {
			delete(l.peers, key)
		}
	}
	for key := range l.peers {
		if len(l.peers) < maxPeers {
			return
		}
		delete(l.peers, key)
	}
}

// prefixOf is what of an address is one peer's: of IPv6 the network, of which a host has all addresses.
func prefixOf(a net.Addr) netip.Prefix {
	if a == nil {
		return netip.Prefix{}
	}
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := at.Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	prefix, _ := ip.Prefix(bits) // both are below the address's length
	return prefix
}

// LimitConnections bounds how many connections a listener has at once, in all and of one peer, of which more are closed at once.
func LimitConnections(l net.Listener) net.Listener {
	return &peerListener{Listener: netutil.LimitListener(l, maxConnections), open: map[netip.Prefix]int{}}
}

type peerListener struct {
	net.Listener

	mu   sync.Mutex
	open map[netip.Prefix]int
}

func (l *peerListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if key := prefixOf(conn.RemoteAddr()); l.take(key) {
			return &peerConn{Conn: conn, release: sync.OnceFunc(func() { l.give(key) })}, nil
		}
		_ = conn.Close() // nothing was said on it
	}
}

func (l *peerListener) take(key netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key] >= maxPeerConnections {
		return false
	}
	l.open[key]++
	return true
}

func (l *peerListener) give(key netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key]--; l.open[key] == 0 {
		delete(l.open, key)
	}
}

type peerConn struct {
	net.Conn

	release func()
}

func (c *peerConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
