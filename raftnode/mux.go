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
	// maxHandshakes bounds what unauthenticated peers can make a member hold.
	maxHandshakes = 128
)

// mux is the Raft listener: TLS 1.3, controllers only, Raft's protocol and gRPC.
type mux struct {
	listener  net.Listener
	advertise string
	creds     *pki.Credentials
	dial      func(ctx context.Context, addr string) (net.Conn, error)
	log       *slog.Logger
	core      *core
	checker   targetChecker

	raftListener, grpcListener *protocolListener
	handshakeSlots             chan struct{}
	lifetime                   context.Context
	cancel                     context.CancelFunc
	wg                         sync.WaitGroup
	misdirected                atomic.Uint64 // connections whose target is another member

	mu    sync.Mutex
	conns map[net.Conn]bool // of Raft; raft does not close those it accepted. True: untargeted
}

func newMux(c *core, checker targetChecker) *mux {
	cfg := &c.cfg
	m := &mux{
		listener: cfg.Listener, advertise: cfg.Advertise, creds: cfg.Credentials, dial: cfg.dial, log: c.log,
		handshakeSlots: make(chan struct{}, maxHandshakes), conns: make(map[net.Conn]bool), core: c, checker: checker,
	}
	m.lifetime, m.cancel = context.WithCancel(context.Background())
	m.raftListener, m.grpcListener = newProtocolListener(m), newProtocolListener(m)
	return m
}

// serve accepts until Close.
func (m *mux) serve() {
	m.wg.Add(1)
	go func() {
		defer m.wg.Done()
		for m.lifetime.Err() == nil {
			if err := m.accept(); err != nil && m.lifetime.Err() == nil {
				m.log.Warn("cannot accept a connection on the Raft listener", "error", err)
				sleep(m.lifetime, 50*time.Millisecond)
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
	case m.handshakeSlots <- struct{}{}:
	case <-m.lifetime.Done():
		return conn.Close()
	}
	m.wg.Add(1)
	go func() {
		defer m.wg.Done()
		m.handshake(conn)
		<-m.handshakeSlots
	}()
	return nil
}

// handshake refuses every certificate but a controller's of this cluster, and every
// connection whose target is another member (S68), and hands the rest to their protocol's listener.
func (m *mux) handshake(conn net.Conn) {
	ctx, cancel := context.WithTimeout(m.lifetime, handshakeTimeout)
	defer cancel()
	config := m.creds.Server(pki.Controller)
	config.NextProtos = []string{protoRaft, protoMember, protoJoin, protoRaft1, protoMember1}
	tlsConn := tls.Server(conn, config)
	err := tlsConn.HandshakeContext(ctx)
	if err == nil {
		err = withContext(ctx, tlsConn, func() error { return m.checkProtocol(tlsConn) })
	}
	if err != nil {
		_ = tlsConn.Close()
		if m.lifetime.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
			m.log.Warn("refused a connection on the Raft listener", "from", hostOf(conn.RemoteAddr()), "error", err)
		}
		return
	}
	switch protocol := tlsConn.ConnectionState().NegotiatedProtocol; protocol {
	case protoRaft, protoRaft1:
		m.raftListener.deliver(m.track(tlsConn, protocol == protoRaft1))
	default:
		m.grpcListener.deliver(tlsConn)
	}
}

// checkProtocol is nil when a connection may go on. Which gRPC calls an untargeted one may
// make is decided at each call.
func (m *mux) checkProtocol(conn *tls.Conn) error {
	switch protocol := conn.ConnectionState().NegotiatedProtocol; protocol {
	case protoRaft, protoMember:
		err := answerTarget(conn, m.checker)
		if err != nil {
			m.misdirected.Add(1)
		}
		return err
	case protoRaft1:
		return m.checker.checkUntargeted()
	case protoJoin, protoMember1:
		return nil
	default:
		return errors.New("the connection did not negotiate a protocol")
	}
}

// closeUntargeted closes the untargeted connections of Raft.
func (m *mux) closeUntargeted() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for conn, untargeted := range m.conns {
		if untargeted {
			_ = conn.Close()
		}
	}
}

// Close ends the listener and every connection of Raft.
func (m *mux) Close() error {
	m.cancel()
	err := m.listener.Close()
	m.mu.Lock()
	for conn := range m.conns {
		_ = conn.Close()
	}
	m.mu.Unlock()
	m.wg.Wait()
	return err
}

// trackedConn is a connection that is forgotten when it is closed.
type trackedConn struct {
	net.Conn
	mux *mux
}

func (m *mux) track(conn net.Conn, untargeted bool) net.Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns[conn] = untargeted
	return trackedConn{Conn: conn, mux: m}
}

// Close implements net.Conn.
func (t trackedConn) Close() error {
	t.mux.mu.Lock()
	delete(t.mux.conns, t.Conn)
	t.mux.mu.Unlock()
	return t.Conn.Close()
}

// protocolListener is the listener of one protocol, and raft.StreamLayer.
type protocolListener struct {
	mux      *mux
	accepted chan net.Conn
	once     sync.Once
	done     chan struct{}
}

func newProtocolListener(m *mux) *protocolListener {
	return &protocolListener{mux: m, accepted: make(chan net.Conn), done: make(chan struct{})}
}

func (b *protocolListener) deliver(conn net.Conn) {
	select {
	case b.accepted <- conn:
	case <-b.done:
		_ = conn.Close()
	case <-b.mux.lifetime.Done():
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (b *protocolListener) Accept() (net.Conn, error) {
	select {
	case conn := <-b.accepted:
		return conn, nil
	case <-b.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It leaves the mux's listener open.
func (b *protocolListener) Close() error {
	b.once.Do(func() { close(b.done) })
	return nil
}

// Addr is what peers dial.
func (b *protocolListener) Addr() net.Addr { return advertisedAddr(b.mux.advertise) }

type advertisedAddr string

func (advertisedAddr) Network() string  { return "tcp" }
func (a advertisedAddr) String() string { return string(a) }

// Dial implements raft.StreamLayer. The address comes from withMemberID: raft's transport
// pools connections by address, and must not mix up members that share one.
func (b *protocolListener) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(b.mux.lifetime, min(timeout, handshakeTimeout))
	defer cancel()
	id, addr, _ := strings.Cut(string(address), "@")
	conn, err := b.mux.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	protocols := []string{protoRaft}
	if b.mux.core.dialsUntargeted() {
		protocols = append(protocols, protoRaft1)
	}
	tlsConn, err := tlsClient(ctx, conn, b.mux.creds, b.mux.core.targetFor(id), protocols...)
	if err != nil {
		return nil, fmt.Errorf("TLS handshake with %s: %w", addr, err)
	}
	return tlsConn, nil
}

// withMemberID is a member's address with its id.
func withMemberID(id raft.ServerID, address raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(string(id) + "@" + string(address))
}

// handshakenCreds are gRPC credentials for connections whose handshake the mux did.
type handshakenCreds struct{}

// ServerHandshake returns the peer of the handshake that the mux did.
func (handshakenCreds) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	tlsConn, ok := conn.(*tls.Conn)
	if !ok {
		return nil, nil, errors.New("not a connection of the Raft listener")
	}
	return conn, tlsInfo(tlsConn), nil
}

func tlsInfo(conn *tls.Conn) credentials.TLSInfo {
	return credentials.TLSInfo{
		State:          conn.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}
}

// ClientHandshake is never used.
func (handshakenCreds) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for listeners only")
}

// Info implements credentials.TransportCredentials.
func (handshakenCreds) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (g handshakenCreds) Clone() credentials.TransportCredentials { return g }

// OverrideServerName implements credentials.TransportCredentials.
func (handshakenCreds) OverrideServerName(string) error { return nil }

// sleep waits, or returns at once when the context is done.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// hostOf is an address without its port, which is another one at each retry of a peer.
func hostOf(addr net.Addr) string {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	return host
}
