package pki

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"
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

// Allow is an interceptor pair that lets through only calls of the roles given
// for the longest matching prefix of the full method name; others get PERMISSION_DENIED.
func Allow(rules map[string][]Role) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	unary := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if err := allow(ctx, rules, info.FullMethod); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
	stream := func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if err := allow(s.Context(), rules, info.FullMethod); err != nil {
			return err
		}
		return next(srv, s)
	}
	return unary, stream
}

func allow(ctx context.Context, rules map[string][]Role, method string) error {
	id, err := Peer(ctx)
	if err != nil {
		return err
	}
	roles := longestPrefix(rules, method)
	if !slices.Contains(roles, id.Role) {
		return status.Errorf(codes.PermissionDenied, "%s may not call %s: it is for the roles %q", id.Actor(), method, joinRoles(roles))
	}
	return nil
}

func longestPrefix(rules map[string][]Role, method string) (roles []Role) {
	best := -1
	for prefix, allowed := range rules {
		if strings.HasPrefix(method, prefix) && len(prefix) > best {
			best, roles = len(prefix), allowed
		}
	}
	return roles
}
