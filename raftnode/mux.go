package raftnode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc/credentials"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

const (
	handshakeTimeout = 10 * time.Second
	// handshakesAtOnce bounds what strangers can make a member hold.
	handshakesAtOnce = 128
)

// mux is the Raft listener: TLS 1.3, controllers only, Raft's protocol and gRPC.
type mux struct {
	listener  net.Listener
	advertise string
	creds     *pki.Credentials
	dial      func(ctx context.Context, addr string) (net.Conn, error)
	log       *slog.Logger
	member    *Member

	raft, grpc *branch
	places     chan struct{}
	closed     context.Context
	close      context.CancelFunc
	wg         sync.WaitGroup
	refused    atomic.Uint64 // connections that were meant for another member

	mu    sync.Mutex
	conns map[net.Conn]bool // of Raft; raft does not close those it accepted. True: it names nobody
}

func newMux(member *Member) *mux {
	cfg := &member.cfg
	m := &mux{
		listener: cfg.Listener, advertise: cfg.Advertise, creds: cfg.Credentials, dial: cfg.dial, log: member.log,
		places: make(chan struct{}, handshakesAtOnce), conns: make(map[net.Conn]bool), member: member,
	}
	m.closed, m.close = context.WithCancel(context.Background())
	m.raft, m.grpc = newBranch(m), newBranch(m)
	return m
}

// serve accepts until Close.
func (m *mux) serve() {
	m.wg.Add(1)
	go func() {
		defer m.wg.Done()
		for m.closed.Err() == nil {
			if err := m.accept(); err != nil && m.closed.Err() == nil {
				m.log.Warn("accept a connection on the Raft listener", "error", err)
				pause(m.closed, 50*time.Millisecond)
			}
		}
	}()
}

func (m *mux) accept() error {
	conn, err := m.listener.Accept()
	if err != nil {
		return err
	}
	select {
	case m.places <- struct{}{}:
	case <-m.closed.Done():
		return conn.Close()
	}
	m.wg.Add(1)
	go func() {
		defer m.wg.Done()
		m.handshake(conn)
		<-m.places
	}()
	return nil
}

// handshake refuses every certificate but a controller's of this cluster, and every
// connection that is meant for another member (S68), and hands the rest to whom it asked for.
func (m *mux) handshake(conn net.Conn) {
	ctx, cancel := context.WithTimeout(m.closed, handshakeTimeout)
	defer cancel()
	config := m.creds.Server(pki.Controller)
	config.NextProtos = []string{protoRaft, protoMember, protoJoin, protoRaft1, protoMember1}
	secure := tls.Server(conn, config)
	err := secure.HandshakeContext(ctx)
	if err == nil {
		err = under(ctx, secure, func() error { return m.meant(secure) })
	}
	if err != nil {
		_ = secure.Close()
		if m.closed.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
			m.log.Warn("refuse a connection on the Raft listener", "from", hostOf(conn.RemoteAddr()), "error", err)
		}
		return
	}
	switch protocol := secure.ConnectionState().NegotiatedProtocol; protocol {
	case protoRaft, protoRaft1:
		m.raft.offer(m.track(secure, protocol == protoRaft1))
	default:
		m.grpc.offer(secure)
	}
}

// meant is nil when a connection may go on. What gRPC may be asked on one that names
// nobody is decided at each call.
func (m *mux) meant(conn *tls.Conn) error {
	switch protocol := conn.ConnectionState().NegotiatedProtocol; protocol {
	case protoRaft, protoMember:
		err := takeTarget(conn, m.member)
		if err != nil {
			m.refused.Add(1)
		}
		return err
	case protoRaft1:
		return m.member.acceptsUnnamed()
	case protoJoin, protoMember1:
		return nil
	default:
		return errors.New("the connection names no protocol")
	}
}

// closeUnnamed ends the connections of Raft that name nobody.
func (m *mux) closeUnnamed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for conn, unnamed := range m.conns {
		if unnamed {
			_ = conn.Close()
		}
	}
}

// Close ends the listener and every connection of Raft.
func (m *mux) Close() error {
	m.close()
	err := m.listener.Close()
	m.mu.Lock()
	for conn := range m.conns {
		_ = conn.Close()
	}
	m.mu.Unlock()
	m.wg.Wait()
	return err
}

// tracked is a connection that is forgotten when it is closed.
type tracked struct {
	net.Conn
	mux *mux
}

func (m *mux) track(conn net.Conn, unnamed bool) net.Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns[conn] = unnamed
	return tracked{Conn: conn, mux: m}
}

// Close is net.Conn's.
func (t tracked) Close() error {
	t.mux.mu.Lock()
	delete(t.mux.conns, t.Conn)
	t.mux.mu.Unlock()
	return t.Conn.Close()
}

// branch is the listener of one protocol, and raft.StreamLayer.
type branch struct {
	mux   *mux
	ready chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newBranch(m *mux) *branch {
	return &branch{mux: m, ready: make(chan net.Conn), done: make(chan struct{})}
}

func (b *branch) offer(conn net.Conn) {
	select {
	case b.ready <- conn:
	case <-b.done:
		_ = conn.Close()
	case <-b.mux.closed.Done():
		_ = conn.Close()
	}
}

// Accept is net.Listener's.
func (b *branch) Accept() (net.Conn, error) {
	select {
	case conn := <-b.ready:
		return conn, nil
	case <-b.done:
		return nil, net.ErrClosed
	}
}

// Close is net.Listener's. The mux has its own.
func (b *branch) Close() error {
	b.once.Do(func() { close(b.done) })
	return nil
}

// Addr is what peers dial.
func (b *branch) Addr() net.Addr { return advertised(b.mux.advertise) }

type advertised string

func (advertised) Network() string  { return "tcp" }
func (a advertised) String() string { return string(a) }

// Dial is raft.StreamLayer's. The address is one that addressed made: the pool of
// raft's transport is by address, and must not mix members up that have the same one.
func (b *branch) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(b.mux.closed, min(timeout, handshakeTimeout))
	defer cancel()
	id, addr, _ := strings.Cut(string(address), "@")
	conn, err := b.mux.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	protocols := []string{protoRaft}
	if b.mux.member.dialsUnnamed() {
		protocols = append(protocols, protoRaft1)
	}
	secured, err := secure(ctx, conn, b.mux.creds, b.mux.member.target(id), protocols...)
	if err != nil {
		return nil, fmt.Errorf("greet %s: %w", addr, err)
	}
	return secured, nil
}

// addressed is a member's address with its id.
func addressed(id raft.ServerID, address raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(string(id) + "@" + string(address))
}

// greeted is grpc's credentials for connections whose handshake the mux did.
type greeted struct{}

// ServerHandshake says whom the mux greeted.
func (greeted) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return nil, nil, errors.New("not a connection of the Raft listener")
	}
	return conn, tlsInfo(secure), nil
}

func tlsInfo(conn *tls.Conn) credentials.TLSInfo {
	return credentials.TLSInfo{
		State:          conn.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}
}

// ClientHandshake is never used.
func (greeted) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a listener's")
}

// Info is credentials.TransportCredentials'.
func (greeted) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone is credentials.TransportCredentials'.
func (g greeted) Clone() credentials.TransportCredentials { return g }

// OverrideServerName is credentials.TransportCredentials'.
func (greeted) OverrideServerName(string) error { return nil }

// pause waits, or returns at once when the context is done.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// hostOf is an address without its port: a peer that tries again comes from another one,
// and says nothing new.
func hostOf(addr net.Addr) string {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	return host
}
