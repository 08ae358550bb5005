package pki

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// pair is a connection that both ends keep.
type pair struct {
	server, client     *Credentials
	accepted, dialed   net.Conn
	renewed            int
	serverDir, nodeDir string
	ca                 string
}

func newPair(t *testing.T, validity time.Duration) *pair {
	t.Helper()
	here, there := net.Pipe()
	return newPairOver(t, validity, here, there)
}

func newPairOver(t *testing.T, validity time.Duration, here, there net.Conn) *pair {
	t.Helper()
	p := &pair{ca: newCA(t, "one"), serverDir: filepath.Join(t.TempDir(), "s"), nodeDir: filepath.Join(t.TempDir(), "n")}
	load := func(dir string, role Role, name string) *Credentials {
		files, err := Issue(p.ca, dir, Identity{Role: role, Name: name}, validity)
		require.NoError(t, err)
		creds, err := Load(files)
		require.NoError(t, err)
		return creds
	}
	p.server, p.client = load(p.serverDir, Controller, "c1"), load(p.nodeDir, Node, "n1")
	done := make(chan error, 1)
	serverSide := tls.Server(there, p.server.Server(Node))
	go func() { done <- serverSide.HandshakeContext(context.Background()) }()
	own := p.client.Own()
	clientSide := tls.Client(here, p.client.Client(Controller))
	require.NoError(t, clientSide.HandshakeContext(t.Context()))
	require.NoError(t, <-done)
	var err error
	p.accepted, err = p.server.Accepted(serverSide, serverSide.ConnectionState())
	require.NoError(t, err)
	p.dialed, err = p.client.Dialed(clientSide, clientSide.ConnectionState(), own, func(net.Conn) { p.renewed++ })
	require.NoError(t, err)
	t.Cleanup(func() { _ = here.Close(); _ = there.Close() })
	return p
}

// open tells whether the connections are kept, the accepted and the dialed one.
func (p *pair) open() [2]bool {
	return [2]bool{len(p.server.Connected()) == 1, len(p.client.Connected()) == 1}
}

// check is what Watch does at a time; closing is finished when it returns.
func (p *pair) check(t *testing.T, at time.Time) {
	t.Helper()
	p.server.checkConns(at)
	p.client.checkConns(at)
}

func requireEnds(t *testing.T, ended func() bool) {
	t.Helper()
	require.Eventually(t, ended, time.Minute, time.Millisecond)
}

func TestAConnectionDoesNotOutliveItsPeersCertificate(t *testing.T) {
	p := newPair(t, 20*time.Hour)
	end := p.server.Certificate().NotAfter
	p.check(t, end.Add(-3*time.Hour))
	require.Zero(t, p.renewed)
	for n := range 2 { // again when it did not help
		p.check(t, end.Add(-50*time.Minute+time.Duration(n)*20*time.Minute))
		require.Equal(t, n+1, p.renewed)
		p.check(t, end.Add(-50*time.Minute+time.Duration(n)*20*time.Minute+time.Second))
		require.Equal(t, n+1, p.renewed)
	}
	require.Equal(t, [2]bool{true, true}, p.open())
	last := p.client.Certificate().NotAfter // the two were not issued at one instant
	if last.Before(end) {
		last = end
	}
	p.check(t, last.Add(-time.Second))
	requireEnds(t, func() bool { return p.open() == [2]bool{} })
}

// A peer that does not renew its certificate is tried a few times, and not by each connection that was just made.
func TestAConnectionThatWasJustMadeIsNotRenewedAtOnce(t *testing.T) {
	p := newPair(t, 20*time.Second) // it is dated back, so that all of its life is within the margin
	end := p.server.Certificate().NotAfter
	p.client.conns.mu.Lock()
	for k := range p.client.conns.open {
		k.asked = end.Add(-20 * time.Second)
	}
	p.client.conns.mu.Unlock()
	p.check(t, end.Add(-19500*time.Millisecond))
	require.Zero(t, p.renewed)
	p.check(t, end.Add(-12*time.Second))
	require.Equal(t, 1, p.renewed)
}

func TestAConnectionIsRenewedWhenTheOwnCertificateIs(t *testing.T) {
	p := newPair(t, time.Hour)
	now := time.Now().Add(checkInterval)
	p.check(t, now)
	require.Zero(t, p.renewed)
	_, err := Issue(p.ca, p.nodeDir, Identity{Role: Node, Name: "n1"}, time.Hour)
	require.NoError(t, err)
	p.check(t, now)
	p.check(t, now)
	require.Equal(t, 1, p.renewed)
	require.Equal(t, [2]bool{true, true}, p.open(), "until the other one is there")
}

// What was closed below, as gRPC does where it fails after the handshake, is not taken for a connection that must be made again.
func TestAConnectionThatWasClosedBelowIsForgotten(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	here, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	there, err := listener.Accept()
	require.NoError(t, err)
	p := newPairOver(t, time.Hour, here, there)
	p.server.checkConns(time.Now())
	p.client.checkConns(time.Now())
	require.Equal(t, [2]bool{true, true}, p.open())
	require.NoError(t, there.Close())
	require.NoError(t, here.Close())
	for range 2 {
		p.server.checkConns(time.Now())
		p.client.checkConns(time.Now())
		require.Eventually(t, func() bool { return p.open() == [2]bool{} }, time.Minute, time.Millisecond)
	}
	require.Zero(t, p.renewed)
}

func TestConnectionsOfADroppedCAEnd(t *testing.T) {
	p := newPair(t, time.Hour)
	now := time.Now().Add(checkInterval)
	_, err := Issue(newCA(t, "one"), filepath.Dir(p.client.files.CA), Identity{Role: Node, Name: "n1"}, time.Hour)
	require.NoError(t, err)
	bundle, err := readBundle(p.client.files.CA)
	require.NoError(t, err)
	require.NoError(t, writeBundle(p.client.files.CA, bundle[:1])) // the new CA only
	p.check(t, now)
	require.Equal(t, 1, p.renewed, "its client makes another one first")
	require.Equal(t, [2]bool{true, true}, p.open())
	p.check(t, now.Add(untrustedGrace))
	requireEnds(t, func() bool { return p.open() == [2]bool{true, false} })
}

// While a CA is replaced the end that dials may have its new certificate before its peer has: the connection is made again until it is
// under certificates of one CA.
func TestAConnectionToAPeerOfTheOtherCAIsMadeAgain(t *testing.T) {
	p := newPair(t, time.Hour)
	_, err := Issue(newCA(t, "one"), p.nodeDir, Identity{Role: Node, Name: "n1"}, time.Hour)
	require.NoError(t, err)
	now := time.Now()
	for k := range p.client.conns.open {
		k.own, k.asked = p.client.Own(), now // it was made since
	}
	p.check(t, now.Add(rotationInterval-1))
	require.Zero(t, p.renewed)
	for n := 1; n < 3; n++ {
		p.check(t, now.Add(time.Duration(n)*rotationInterval))
		require.Equal(t, n, p.renewed)
	}
	require.Equal(t, [2]bool{true, true}, p.open(), "until the other one is there")
}

func TestARevokedCertificateEndsItsConnections(t *testing.T) {
	p := newPair(t, time.Hour)
	serial := p.client.Certificate().Serial
	revoked := func(c Certificate) error {
		if c.Serial == serial {
			return errors.New("node/n1 was revoked: the host was sold")
		}
		return nil
	}
	require.Equal(t, serial, p.server.Connected()[0].Serial)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.server.Watch(ctx) }()
	p.server.SetRevoked(revoked)
	requireEnds(t, func() bool { return p.open() == [2]bool{false, true} })
	cancel()
	<-done
	for range 2 {
		atServer, atClient := handshake(t, p.server.Server(Node), p.client.Client(Controller))
		require.ErrorContains(t, atServer, "the host was sold")
		require.Error(t, atClient)
	}
	_, err := Issue(p.ca, p.nodeDir, Identity{Role: Node, Name: "n1"}, time.Hour)
	require.NoError(t, err)
	require.NoError(t, errors.Join(handshake(t, p.server.Server(Node), p.client.Client(Controller))), "another certificate of that identity is good")
}

func TestExpiredCertificatesAreNamedWithTheirRemedy(t *testing.T) {
	ca := newCA(t, "one")
	files, err := Issue(ca, filepath.Join(t.TempDir(), "out"), Identity{Role: Controller, Name: "c1"}, time.Nanosecond)
	require.NoError(t, err)
	for range 2 {
		_, err = Load(files)
		require.ErrorContains(t, err, files.Cert+" of controller/c1 expired on ")
		require.ErrorContains(t, err, "--role controller --name c1")
	}
	good := credentialsOf(t, ca, Controller, "c1")
	old, err := readPair(files.Cert, files.Key)
	require.NoError(t, err)
	server := good.Server(Node)
	server.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &old, nil }
	client := credentialsOf(t, ca, Node, "n1")
	_, atClient := handshake(t, server, client.Client(Controller))
	require.ErrorContains(t, atClient, "the server's certificate of controller/c1 expired on ")

	require.NoError(t, client.Err())
	client.current.cert = old // what happens while a process runs
	require.ErrorContains(t, client.Err(), "expired on ")
	_, atClient = handshake(t, good.Server(Node), client.Client(Controller))
	require.ErrorContains(t, atClient, "expired on ", "before the server refuses it")
}

// A stream goes on while new calls have another connection, and the old one ends with its last call.
func TestAClientConnIsRenewedWithoutADroppedCall(t *testing.T) {
	ca := newCA(t, "one")
	server, client := credentialsOf(t, ca, Controller, "c1"), credentialsOf(t, ca, Node, "n1")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer(grpc.Creds(server.ServerCredentials(Node)))
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(listener) }()
	defer s.Stop()
	conn, err := NewClientConn(func(renew func()) (*grpc.ClientConn, error) {
		return grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(client.ClientCredentials(Controller, renew)))
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	api := grpc_health_v1.NewHealthClient(conn)
	ctx, cancel := context.WithCancel(t.Context())
	watch, err := api.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = watch.Recv()
	require.NoError(t, err)

	renewed := conn.Renewed()
	_, err = Issue(ca, filepath.Dir(client.files.Cert), Identity{Role: Node, Name: "n1"}, time.Hour)
	require.NoError(t, err)
	client.checkConns(time.Now().Add(checkInterval))
	<-renewed
	client.checkConns(time.Now().Add(3 * checkInterval)) // the old connection still is of the old certificate
	conn.mu.Lock()
	require.False(t, conn.renewing, "what took its place is not made again for it")
	conn.mu.Unlock()
	_, err = api.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	require.Len(t, server.Connected(), 2, "the stream still has the one that it began on")
	cancel()
	_, err = watch.Recv()
	require.Equal(t, codes.Canceled, status.Code(err))
	requireEnds(t, func() bool { return len(server.Connected()) == 1 })
	require.Equal(t, client.Certificate().Serial, server.Connected()[0].Serial)
}
