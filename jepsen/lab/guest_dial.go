package lab

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// Dial connects to a socket of the guest, through its agent: "unix" and a path, or "tcp"
// and an address that the guest reaches. The connection ends with the guest's run.
func (g *Guest) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := g.dial(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s in %s: %w", address, g.Name(), err)
	}
	return conn, nil
}

func (g *Guest) dial(ctx context.Context, network, address string) (net.Conn, error) {
	run := g.current()
	if run == nil {
		return nil, ErrDown
	}
	conn, err := run.conns.dial(ctx, "tcp", g.agentAddress())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) }) // makes the handshake fail
	stream, err := handshake(conn, network, address)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close() // it cannot be used
		return nil, err
	}
	return stream, nil
}

// handshake turns a connection to an agent into a stream to a socket of the guest.
func handshake(conn net.Conn, network, address string) (net.Conn, error) {
	query := url.Values{"network": {network}, "address": {address}}.Encode()
	if _, err := fmt.Fprintf(conn, "GET /stream?%s HTTP/1.1\r\nHost: agent\r\nConnection: Upgrade\r\nUpgrade: stream\r\n\r\n", query); err != nil {
		return nil, err
	}
	buffered := bufio.NewReader(conn)
	resp, err := http.ReadResponse(buffered, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return &streamConn{Conn: conn, reader: buffered}, nil
	}
	said, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return nil, err
	}
	return nil, &agentError{resp.StatusCode, strings.TrimSpace(string(said))}
}

// streamConn reads first the bytes that arrived with the handshake.
type streamConn struct {
	net.Conn
	reader io.Reader
}

func (s *streamConn) Read(b []byte) (int, error) { return s.reader.Read(b) }

// GRPC connects to a unix socket of the guest. The connection reconnects automatically, also after another
// boot of the guest. The caller closes it.
func (g *Guest) GRPC(path string) (*grpc.ClientConn, error) {
	quick := backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: 300 * time.Millisecond}
	return grpc.NewClient("passthrough:///"+g.Name()+path, grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return g.Dial(ctx, "unix", path) }))
}
