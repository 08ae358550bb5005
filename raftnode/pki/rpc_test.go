package pki

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// echo answers with the identity of who asks.
type echo struct {
	healthpb.UnimplementedHealthServer
	t *testing.T
}

func (e echo) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	id, err := Peer(ctx)
	if err == nil && id.Actor() != "node/n1" {
		err = errors.New(id.Actor())
	}
	return &healthpb.HealthCheckResponse{}, err
}

func (e echo) Watch(_ *healthpb.HealthCheckRequest, s healthpb.Health_WatchServer) error {
	_, err := Peer(s.Context())
	return err
}

// dial serves echo behind the rules, and is a node's connection to it.
func dial(t *testing.T, rules map[string][]Role) healthpb.HealthClient {
	t.Helper()
	ca := newCA(t, "one")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	unary, stream := Allow(rules)
	server := grpc.NewServer(grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream),
		grpc.Creds(credentials.NewTLS(credentialsOf(t, ca, Controller, "c1").Server(Node))))
	healthpb.RegisterHealthServer(server, echo{t: t})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(credentials.NewTLS(credentialsOf(t, ca, Node, "n1").Client(Controller))))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return healthpb.NewHealthClient(conn)
}

func TestAllowGoesByTheLongestPrefix(t *testing.T) {
	for name, tc := range map[string]struct {
		rules map[string][]Role
		want  codes.Code
	}{
		"the role is allowed":                      {map[string][]Role{"/grpc.health.v1.": {Node}}, codes.OK},
		"a longer rule takes it away":              {map[string][]Role{"/": {Node}, "/grpc.health.v1.Health/": {Admin}}, codes.PermissionDenied},
		"a longer rule gives it":                   {map[string][]Role{"/": {Admin}, "/grpc.health.v1.Health/": {Admin, Node}}, codes.OK},
		"what no rule names is refused":            {map[string][]Role{"/other.": {Node}}, codes.PermissionDenied},
		"a rule without roles is for nobody":       {map[string][]Role{"/": {Node}, "/grpc.health.": nil}, codes.PermissionDenied},
		"without any rule everything is refused":   {nil, codes.PermissionDenied},
		"a rule behind the name does not match it": {map[string][]Role{"/grpc.health.v1.Health/CheckMore": {Node}}, codes.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			client := dial(t, tc.rules)
			for range 2 {
				_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{})
				require.Equal(t, tc.want, status.Code(err), err)
				watch, err := client.Watch(t.Context(), &healthpb.HealthCheckRequest{})
				require.NoError(t, err)
				_, err = watch.Recv()
				require.Equal(t, tc.want == codes.OK, err.Error() == "EOF", err)
			}
		})
	}
}

func TestPeerWithoutAHandshakeIsUnauthenticated(t *testing.T) {
	_, err := Peer(t.Context())
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	unary, _ := Allow(map[string][]Role{"/": roles})
	_, err = unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/x"}, nil)
	require.Equal(t, codes.Unauthenticated, status.Code(err))
}
