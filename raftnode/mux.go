package raftnode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc/credentials"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// What the two protocols of the Raft listener are called in the handshake (ALPN).
const (
	protoRaft = "holdfast-raft/1"
	protoGRPC = "h2"
)

const (
	handshakeTimeout = 10 * time.Second
	// handshakesAtOnce bounds what strangers can make a member hold.
	handshakesAtOnce = 128
)

// mux is the Raft listener: TLS 1.3, controllers only, two protocols.
type mux struct {
	listener  net.Listener
	advertise string
	creds     *pki.Credentials
	dial      func(ctx context.Context, addr string) (net.Conn, error)
	log       *slog.Logger

	raft, grpc *branch
	places     chan struct{}
	closed     context.Context
	close      context.CancelFunc
	wg         sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // of Raft; raft does not close those it accepted
}

func newMux(cfg *Config, log *slog.Logger) *mux {
	m := &mux{
		listener: cfg.Listener, advertise: cfg.Advertise, creds: cfg.Credentials, dial: cfg.dial, log: log,
		places: make(chan struct{}, handshakesAtOnce), conns: make(map[net.Conn]struct{}),
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

// handshake refuses every certificate but a controller's of this cluster, and
// hands the connection to whom it asked for.
func (m *mux) handshake(conn net.Conn) {
	ctx, cancel := context.WithTimeout(m.closed, handshakeTimeout)
	defer cancel()
	config := m.creds.Server(pki.Controller)
	config.NextProtos = []string{protoRaft, protoGRPC}
	secure := tls.Server(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if m.closed.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
			m.log.Warn("refuse a connection on the Raft listener", "from", hostOf(conn.RemoteAddr()), "error", err)
		}
		return
	}
	switch secure.ConnectionState().NegotiatedProtocol {
	case protoRaft:
		m.raft.offer(m.track(secure))
	case protoGRPC:
		m.grpc.offer(secure)
	default:
		_ = secure.Close()
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

func (m *mux) track(conn net.Conn) net.Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns[conn] = struct{}{}
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

// Dial is raft.StreamLayer's.
func (b *branch) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(b.mux.closed, min(timeout, handshakeTimeout))
	defer cancel()
	conn, err := b.mux.dial(ctx, string(address))
	if err != nil {
		return nil, err
	}
	config := b.mux.creds.Client(pki.Controller)
	config.NextProtos = []string{protoRaft}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("greet %s: %w", address, err)
	}
	return secure, nil
}

// greeted is grpc's credentials for connections whose handshake the mux did.
type greeted struct{}

// ServerHandshake says whom the mux greeted.
func (greeted) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return nil, nil, errors.New("not a connection of the Raft listener")
	}
	return conn, credentials.TLSInfo{
		State:          secure.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
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
