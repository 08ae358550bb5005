package raftnode

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

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

func (l *protocolListener) deliver(conn net.Conn) {
	select {
	case l.accepted <- conn:
	case <-l.done:
		_ = conn.Close()
	case <-l.mux.lifetime.Done():
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (l *protocolListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It leaves the mux's listener open.
func (l *protocolListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr is what peers dial.
func (l *protocolListener) Addr() net.Addr { return advertisedAddr(l.mux.advertise) }

type advertisedAddr string

func (advertisedAddr) Network() string { return "tcp" }

func (a advertisedAddr) String() string { return string(a) }

// Dial implements raft.StreamLayer. The address comes from withMemberID: raft's transport
// pools connections by address, and must not mix up members that share one. It ends when the member
// begins to close.
func (l *protocolListener) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(l.mux.core.lifetime, min(timeout, handshakeTimeout))
	defer cancel()
	id, addr, _ := strings.Cut(string(address), "@")
	conn, err := l.mux.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	protocols := []string{protoRaft}
	if l.mux.core.dialsUntargeted() {
		protocols = append(protocols, protoRaft1)
	}
	own := l.mux.creds.Own()
	tlsConn, err := tlsClient(ctx, conn, l.mux.creds, l.mux.core.targetFor(id), protocols...)
	if err != nil {
		return nil, fmt.Errorf("TLS handshake with %s: %w", addr, err)
	}
	return l.mux.creds.Dialed(tlsConn, tlsConn.ConnectionState(), own, l.mux.core.transport.renew)
}

// withMemberID is a member's address with its id.
func withMemberID(id raft.ServerID, address raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(string(id) + "@" + string(address))
}
