package raftnode

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

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
	raftConns                  *raftConns
	handshakeSlots             chan struct{}
	lifetime                   context.Context
	cancel                     context.CancelFunc
	wg                         sync.WaitGroup
	misdirected                atomic.Uint64 // connections whose target is another member
}

func newMux(c *core, checker targetChecker) *mux {
	cfg := &c.cfg
	m := &mux{
		listener: cfg.Listener, advertise: cfg.Advertise, creds: cfg.Credentials, dial: cfg.dial, log: c.log,
		handshakeSlots: make(chan struct{}, maxHandshakes), raftConns: newRaftConns(), core: c, checker: checker,
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
		kept, err := m.creds.Accepted(tlsConn, tlsConn.ConnectionState())
		if err != nil {
			m.log.Warn("refused a connection on the Raft listener", "from", hostOf(conn.RemoteAddr()), "error", err)
			return
		}
		m.raftListener.deliver(&receivedConn{
			Conn: m.raftConns.track(kept, protocol == protoRaft1), timeout: m.core.cfg.raftRPCTimeout,
		})
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

// Close ends the listener and every connection of Raft.
func (m *mux) Close() error {
	m.cancel()
	err := m.listener.Close()
	m.raftConns.closeAll()
	m.wg.Wait()
	return err
}

// hostOf is an address without its port, which is another one at each retry of a peer.
func hostOf(addr net.Addr) string {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	return host
}
