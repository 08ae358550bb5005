package pki

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Peer is the identity that the TLS handshake of this RPC verified. The listener
// or the connection must use a configuration of this package. The error is UNAUTHENTICATED.
func Peer(ctx context.Context) (Identity, error) {
	of, err := PeerCertificate(ctx)
	return of.Identity, err
}

// PeerCertificate is Peer with what the certificate says beside the identity.
func PeerCertificate(ctx context.Context) (Certificate, error) {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return Certificate{}, status.Error(codes.Unauthenticated, "the call has no peer")
	}
	info, ok := from.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return Certificate{}, status.Error(codes.Unauthenticated, "the call came without a verified certificate")
	}
	of, err := ReadCertificate(info.State.PeerCertificates[0])
	if err != nil {
		return Certificate{}, status.Error(codes.Unauthenticated, err.Error())
	}
	return of, nil
}
