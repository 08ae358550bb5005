package pki

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials"
)

// refuse has a server's credentials meet a client, and returns the server's error.
func refuse(t *testing.T, server credentials.TransportCredentials, client *tls.Config) error {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	done := make(chan error, 1)
	go func() {
		raw, err := listener.Accept()
		if err == nil {
			_, _, err = server.ServerHandshake(raw)
			_ = raw.Close()
		}
		done <- err
	}()
	raw, err := (&net.Dialer{Timeout: time.Minute}).DialContext(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	if client != nil {
		conn := tls.Client(raw, client)
		if err := conn.HandshakeContext(context.Background()); err == nil {
			_, _ = conn.Read(make([]byte, 1))
		}
	}
	require.NoError(t, raw.Close())
	return <-done
}

func TestRefusedHandshakesAreLoggedOnceAMinute(t *testing.T) {
	ca := newCA(t, "one")
	good := credentialsOf(t, ca, Node, "n1")
	for name, tc := range map[string]struct {
		client *tls.Config
		want   string
	}{
		"expired":    {forged(t, good, ca, "spiffe://one/node/n1", -time.Minute), "expired"},
		"unknown CA": {credentialsOf(t, newCA(t, "one"), Node, "n1").Client(Controller), "tls: |unknown authority"},
		"revoked":    {good.Client(Controller), "the host was sold"},
	} {
		t.Run(name, func(t *testing.T) {
			of := credentialsOf(t, ca, Controller, "c1")
			of.SetRevoked(func(Certificate) error { return errors.New("node/n1 was revoked: the host was sold") })
			var out bytes.Buffer
			server := LogRefusals(of.ServerCredentials(Node), slog.New(slog.NewTextHandler(&out, nil))).(loggedCredentials)
			now := time.Unix(1000, 0)
			server.refusals.now = func() time.Time { return now }
			require.Error(t, refuse(t, server, nil), "a peer that says nothing")
			require.Empty(t, out.String())
			for range 3 {
				require.Error(t, refuse(t, server.Clone(), tc.client))
			}
			require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
			require.Regexp(t, tc.want, out.String())
			require.Contains(t, out.String(), "peer=127.0.0.1 ", "without the port, which is another one each time")
			require.NotContains(t, out.String(), "PRIVATE")
			now = now.Add(refusalInterval)
			require.Error(t, refuse(t, server, tc.client))
			require.Equal(t, 2, strings.Count(out.String(), "\n"))
			require.Contains(t, out.String(), "not_logged_before=2")
		})
	}
}

// Peers without end cost neither memory nor a log without end.
func TestRefusalsOfManyAddressesAreBounded(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	r := &refusalLog{log: slog.New(slog.NewTextHandler(&out, nil)), now: func() time.Time { return now }, last: map[string]*refused{}}
	many := func() {
		for n := range 2 * maxRefusedAddresses {
			r.note(&net.TCPAddr{IP: net.IPv4(10, 0, byte(n>>8), byte(n)), Port: n}, fmt.Errorf("bad: %s", strings.Repeat("x", 10000)))
		}
	}
	many()
	require.Len(t, r.last, maxRefusedAddresses)
	require.Equal(t, maxRefusedAddresses, strings.Count(out.String(), "\n"))
	require.Less(t, out.Len(), 2*maxRefusedAddresses*maxRefusalText)
	now = now.Add(refusalInterval)
	many()
	require.Equal(t, 2*maxRefusedAddresses, strings.Count(out.String(), "\n"))
}
