package pki

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
)

// ServerCredentials are gRPC credentials with Server's configuration, whose connections end as those of
// Accepted do.
func (c *Credentials) ServerCredentials(roles ...Role) credentials.TransportCredentials {
	return keptCredentials{TransportCredentials: credentials.NewTLS(c.Server(roles...)), keep: c.Accepted}
}

// ClientCredentials are gRPC credentials with Client's configuration. renew is as with Dialed.
func (c *Credentials) ClientCredentials(server Role, renew func()) credentials.TransportCredentials {
	return dialedCredentials{TransportCredentials: credentials.NewTLS(c.Client(server)), creds: c, renew: renew}
}

// keptCredentials keep what a listener accepted.
type keptCredentials struct {
	credentials.TransportCredentials
	keep func(net.Conn, tls.ConnectionState) (net.Conn, error)
}

// ServerHandshake implements credentials.TransportCredentials.
func (k keptCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	done, info, err := k.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	kept, err := k.keep(done, stateOf(info))
	return kept, info, err
}

// Clone implements credentials.TransportCredentials.
func (k keptCredentials) Clone() credentials.TransportCredentials {
	return keptCredentials{k.TransportCredentials.Clone(), k.keep}
}

// dialedCredentials keep what a client dialed.
type dialedCredentials struct {
	credentials.TransportCredentials
	creds *Credentials
	renew func()
}

// ClientHandshake implements credentials.TransportCredentials.
func (d dialedCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	own := d.creds.Own()
	done, info, err := d.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	kept, err := d.creds.Dialed(done, stateOf(info), own, func(net.Conn) { d.renew() })
	return kept, info, err
}

func stateOf(info credentials.AuthInfo) tls.ConnectionState {
	of, _ := info.(credentials.TLSInfo)
	return of.State
}

// Clone implements credentials.TransportCredentials.
func (d dialedCredentials) Clone() credentials.TransportCredentials {
	return dialedCredentials{d.TransportCredentials.Clone(), d.creds, d.renew}
}
