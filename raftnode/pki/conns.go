package pki

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// checkInterval is how often open connections are held against files, dates and revocations.
	checkInterval = time.Second
	// renewMargin is how long before its peer's certificate expires a connection is made again, to
	// meet the certificate that the peer has by then; shorter ones have a tenth of their validity.
	renewMargin = time.Hour
	// rotationInterval is how often a connection is made again whose peer's certificate is of another CA than our own: the CA
	// is being replaced, which may take days, and the peer got its new one later than we did, or has not yet.
	rotationInterval = 30 * time.Second
	// untrustedGrace is how long a connection stays whose peer's CA is no longer in the bundle: its
	// client makes another one meanwhile, and calls under way end.
	untrustedGrace = 5 * time.Second
)

// conns are the open connections of a process, by the certificate of their peer.
type conns struct {
	mu      sync.Mutex
	open    map[*conn]struct{}
	recheck chan struct{}
}

func newConns() conns { return conns{open: make(map[*conn]struct{}), recheck: make(chan struct{}, 1)} }

// conn is an open connection whose peer was verified in the handshake.
type conn struct {
	net.Conn
	creds *Credentials
	peer  Certificate
	chain []*x509.Certificate
	usage x509.ExtKeyUsage
	own   *x509.Certificate // of the handshake

	// renew makes another connection in this one's place, and closes this one when nothing uses it any
	// more. Nil: the other end does.
	renew func(net.Conn)

	// Of the goroutine that checks, under conns.mu.
	roots     *x509.CertPool // under which the chain was last found good
	untrusted time.Time      // since when it is not; zero: it is
	asked     time.Time      // when renew was called last, or the connection was made
}

// Accepted keeps a connection that a listener accepted, after its handshake, until it is closed: it
// ends when its peer's certificate expires, is revoked or is no longer trusted.
func (c *Credentials) Accepted(of net.Conn, state tls.ConnectionState) (net.Conn, error) {
	return c.keep(&conn{Conn: of, chain: state.PeerCertificates, usage: x509.ExtKeyUsageClientAuth})
}

// Dialed is Accepted for a connection that this process dialed. own is its certificate before the handshake
// began. renew is called when the connection has to be made again, and again when that did not help.
func (c *Credentials) Dialed(of net.Conn, state tls.ConnectionState, own *x509.Certificate, renew func(net.Conn)) (net.Conn, error) {
	return c.keep(&conn{Conn: of, chain: state.PeerCertificates, usage: x509.ExtKeyUsageServerAuth, own: own, renew: renew})
}

// Own is the certificate with which a handshake that begins now would be made.
func (c *Credentials) Own() *x509.Certificate { return c.currentMaterial().cert.Leaf }

// keep closes the connection when it returns an error.
func (c *Credentials) keep(k *conn) (_ net.Conn, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, k.Conn.Close())
		}
	}()
	if len(k.chain) == 0 {
		return nil, fmt.Errorf("the connection of %s has no verified peer", k.RemoteAddr())
	}
	if k.peer, err = ReadCertificate(k.chain[0]); err != nil {
		return nil, err
	}
	k.creds, k.asked = c, time.Now()
	c.conns.mu.Lock()
	c.conns.open[k] = struct{}{}
	c.conns.mu.Unlock()
	// A revocation may have come since the handshake, before the connection was kept.
	if err := c.reasonRevoked(k.peer); err != nil {
		c.conns.forget(k)
		return nil, err
	}
	return k, nil
}

func (c *conns) forget(k *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, k)
}

// Close implements net.Conn.
func (k *conn) Close() error {
	k.creds.conns.forget(k)
	return k.Conn.Close()
}

// Connected are the certificates of the peers that are connected now, each once.
func (c *Credentials) Connected() []Certificate {
	c.conns.mu.Lock()
	defer c.conns.mu.Unlock()
	seen := map[Certificate]bool{}
	var all []Certificate
	for k := range c.conns.open {
		if !seen[k.peer] {
			seen[k.peer] = true
			all = append(all, k.peer)
		}
	}
	return all
}

// SetRevoked sets what says why a certificate was revoked, nil when it was not. It is asked in every
// handshake and, after Recheck, of every open connection.
func (c *Credentials) SetRevoked(revoked func(Certificate) error) {
	c.revoked.Store(&revoked)
	c.Recheck()
}

// reasonRevoked is nil for a certificate that is not revoked.
func (c *Credentials) reasonRevoked(peer Certificate) error {
	if revoked := c.revoked.Load(); revoked != nil {
		return (*revoked)(peer)
	}
	return nil
}

// Recheck has open connections checked at once: what is revoked changed. It does not block.
func (c *Credentials) Recheck() {
	select {
	case c.conns.recheck <- struct{}{}:
	default:
	}
}

// Watch keeps the open connections to what is on disk, to the dates and to what is revoked, until ctx ends.
func (c *Credentials) Watch(ctx context.Context) {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-c.conns.recheck:
		}
		c.checkConns(time.Now())
	}
}

// checkConns closes the connections that must end, and has those renewed that soon must.
func (c *Credentials) checkConns(now time.Time) {
	material := c.currentMaterial()
	var end, renew []*conn
	c.conns.mu.Lock()
	for k := range c.conns.open {
		switch {
		case k.isClosedBelow(), k.mustEnd(now, material):
			end = append(end, k)
		case k.renew != nil && k.renewalDue(now, material):
			k.asked = now
			renew = append(renew, k)
		}
	}
	c.conns.mu.Unlock()
	for _, k := range end {
		go func() { _ = k.Close() }() // which may wait for a peer that reads nothing
	}
	for _, k := range renew {
		k.renew(k)
	}
}

// isClosedBelow tells whether the connection below was closed without this one: gRPC does that where it fails between the handshake
// and its own first message.
func (k *conn) isClosedBelow() bool {
	below := k.Conn
	if secure, ok := below.(interface{ NetConn() net.Conn }); ok {
		below = secure.NetConn()
	}
	socket, ok := below.(syscall.Conn)
	if !ok {
		return false // a pretended network
	}
	raw, err := socket.SyscallConn()
	return err != nil || raw.Control(func(uintptr) {}) != nil
}

// mustEnd: the peer's certificate expires before the next check, is revoked, or was signed by a CA that is
// not trusted any more.
func (k *conn) mustEnd(now time.Time, m *keyMaterial) bool {
	if !now.Add(checkInterval).Before(k.peer.NotAfter) || k.creds.reasonRevoked(k.peer) != nil {
		return true
	}
	if k.roots != m.roots {
		k.roots = m.roots
		if k.isTrusted(m) {
			k.untrusted = time.Time{}
		} else if k.untrusted.IsZero() {
			k.untrusted = now
		}
	}
	return !k.untrusted.IsZero() && now.Sub(k.untrusted) >= untrustedGrace
}

func (k *conn) isTrusted(m *keyMaterial) bool {
	var chain [][]byte
	for _, cert := range k.chain[1:] {
		chain = append(chain, cert.Raw)
	}
	_, err := verifyChain(m.roots, k.chain, chain, k.usage)
	return err == nil
}

// renewalDue: this process has another certificate now, or the peer's is of another CA, about to expire or not
// trusted. What did not help is tried again.
func (k *conn) renewalDue(now time.Time, m *keyMaterial) bool {
	margin := min(renewMargin, k.peer.NotAfter.Sub(k.chain[0].NotBefore)/10)
	switch {
	case !m.cert.Leaf.Equal(k.own), !k.untrusted.IsZero():
		return now.Sub(k.asked) >= checkInterval
	case !bytes.Equal(m.cert.Leaf.AuthorityKeyId, k.chain[0].AuthorityKeyId):
		return now.Sub(k.asked) >= rotationInterval
	case now.Add(margin).After(k.peer.NotAfter):
		return now.Sub(k.asked) >= max(checkInterval, margin/4)
	}
	return false
}
