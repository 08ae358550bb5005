package raftnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// peers keeps one connection to each other member and asks them for their status.
type peers struct {
	*core

	mu     sync.Mutex
	conns  map[peerKey]*pki.ClientConn
	closed bool
}

// peerKey is a member at an address; without an id, any process there.
type peerKey struct{ id, addr string }

func newPeers(c *core) *peers {
	return &peers{core: c, conns: make(map[peerKey]*pki.ClientConn)}
}

// dial connects to a member. Without an id the connection is untargeted and takes Join and
// Status only.
func (p *peers) dial(id, addr string) (*pki.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := peerKey{id, addr}
	if p.closed {
		return nil, ErrShutdown
	}
	if conn := p.conns[key]; conn != nil {
		return conn, nil
	}
	conn, err := pki.NewClientConn(func(renew func()) (*grpc.ClientConn, error) { return p.dialNew(id, addr, renew) })
	if err != nil {
		return nil, err
	}
	p.conns[key] = conn
	return conn, nil
}

// dialMember connects to a member of the configuration.
func (p *peers) dialMember(id string) (*pki.ClientConn, error) {
	s, ok := p.serverOf(id)
	if !ok {
		return nil, fmt.Errorf("dial member %s: it is not in the configuration", id)
	}
	return p.dial(id, string(s.Address))
}

// dialNew makes a connection that the caller closes, and makes again when renew is called.
func (p *peers) dialNew(id, addr string, renew func()) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(memberCreds{p.core, id, renew}),
		// Soon: a member that restarts is wanted at once.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 25 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
			MinConnectTimeout: 2 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithContextDialer(p.cfg.dial),
		grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, fmt.Errorf("dial the member at %s: %w", addr, err)
	}
	return conn, nil
}

// closeExcept closes the connections to all others: gRPC would retry those that are gone
// indefinitely.
func (p *peers) closeExcept(wanted func(peerKey) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, conn := range p.conns {
		if !wanted(key) {
			_ = conn.Close() // its calls fail with Canceled
			delete(p.conns, key)
		}
	}
}

func (p *peers) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, conn := range p.conns {
		errs = append(errs, conn.Close())
	}
	p.conns = nil
	return errors.Join(errs...)
}

// memberCreds are gRPC credentials for connections to one member, or to any process at the
// address when the id is empty.
type memberCreds struct {
	core  *core
	id    string
	renew func()
}

// ClientHandshake sends the target after the TLS handshake.
func (c memberCreds) ClientHandshake(ctx context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	protocols := []string{protoMember}
	if c.id == "" {
		protocols = []string{protoJoin}
	}
	if c.core.dialsUntargeted() {
		protocols = append(protocols, protoMember1)
	}
	creds := c.core.cfg.Credentials
	own := creds.Own()
	tlsConn, err := tlsClient(ctx, conn, creds, c.core.targetFor(c.id), protocols...)
	if err != nil {
		return nil, nil, err
	}
	kept, err := creds.Dialed(tlsConn, tlsConn.ConnectionState(), own, func(net.Conn) { c.renew() })
	return kept, tlsInfo(tlsConn), err
}

// ServerHandshake is never used.
func (c memberCreds) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for clients only")
}

// Info implements credentials.TransportCredentials.
func (c memberCreds) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (c memberCreds) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements credentials.TransportCredentials.
func (c memberCreds) OverrideServerName(string) error { return nil }
