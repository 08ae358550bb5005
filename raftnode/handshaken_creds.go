package raftnode

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// handshakenCreds are gRPC credentials for connections whose handshake the mux did.
type handshakenCreds struct{ creds *pki.Credentials }

// ServerHandshake returns the peer of the handshake that the mux did.
func (c handshakenCreds) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	tlsConn, ok := conn.(*tls.Conn)
	if !ok {
		return nil, nil, errors.New("not a connection of the Raft listener")
	}
	kept, err := c.creds.Accepted(tlsConn, tlsConn.ConnectionState())
	return kept, tlsInfo(tlsConn), err
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
func (c handshakenCreds) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements credentials.TransportCredentials.
func (handshakenCreds) OverrideServerName(string) error { return nil }
