package access

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

const check, watch = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"

// verbOf makes a request of the service look like one with a verb.
type verbOf string

func (v verbOf) GetVerb() string { return string(v) }

// dial serves a service behind the rules, and is a node's connection to it.
func dial(t *testing.T, table []Row) healthpb.HealthClient {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca")
	require.NoError(t, pki.MakeCA(ca, "one"))
	load := func(role pki.Role) *pki.Credentials {
		files, err := pki.Issue(ca, filepath.Join(t.TempDir(), string(role)), pki.Identity{Role: role, Name: "x"}, time.Hour)
		require.NoError(t, err)
		creds, err := pki.Load(files)
		require.NoError(t, err)
		return creds
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	unary, stream := rulesOf(table).interceptors()
	server := grpc.NewServer(grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream), grpc.Creds(credentials.NewTLS(load(pki.Controller).Server(pki.Node))))
	healthpb.RegisterHealthServer(server, healthpb.UnimplementedHealthServer{})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(load(pki.Node).Client(pki.Controller))))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return healthpb.NewHealthClient(conn)
}

func TestWhatNoRowAllowsIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		table []Row
		want  codes.Code
	}{
		"the role is in the row":             {[]Row{{check, "", nodes}, {watch, "", nodes}}, codes.Unimplemented},
		"it is not":                          {[]Row{{check, "", admins}, {watch, "", admins}}, codes.PermissionDenied},
		"there is no row":                    {nil, codes.PermissionDenied},
		"rows of others do not count":        {[]Row{{"/grpc.health.v1.Health/", "", nodes}, {check + "More", "", nodes}}, codes.PermissionDenied},
		"a row without roles is for nobody":  {[]Row{{check, "", nil}, {watch, "", nil}}, codes.PermissionDenied},
		"a verb, and a request without one":  {[]Row{{check, "drain", nodes}}, codes.PermissionDenied},
		"a stream's verb is not told apart":  {[]Row{{watch, "drain", nodes}}, codes.PermissionDenied},
		"a row with a verb does not open it": {[]Row{{check, "drain", nodes}, {watch, "drain", nodes}}, codes.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			client := dial(t, tc.table)
			for range 2 {
				_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{})
				require.Equal(t, tc.want, status.Code(err), err)
				stream, err := client.Watch(t.Context(), &healthpb.HealthCheckRequest{})
				require.NoError(t, err)
				_, err = stream.Recv()
				require.Equal(t, tc.want, status.Code(err), err)
			}
		})
	}
}

func TestARowWithAVerbIsForThatVerbOnly(t *testing.T) {
	r := rulesOf([]Row{{check, "drain", operators}, {check, "lost", admins}})
	for verb, want := range map[verbOf][]pki.Role{"drain": operators, "lost": admins, "": nil, "new": nil} {
		for range 2 {
			roles, _ := r.rolesFor(check, verb)
			require.Equal(t, want, roles, verb)
		}
	}
}

func TestACallWithoutAHandshakeIsUnauthenticated(t *testing.T) {
	unary, _ := Interceptors()
	_, err := unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: Table[0].Method}, nil)
	require.Equal(t, codes.Unauthenticated, status.Code(err))
}

func TestNoRowIsThereTwice(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range Table {
		require.False(t, seen[row.Method+row.Verb], "%s %s", row.Method, row.Verb)
		seen[row.Method+row.Verb] = true
		require.NotEmpty(t, row.Roles)
	}
	for _, row := range Table {
		require.False(t, row.Verb != "" && seen[row.Method], "%s has a row for all verbs too", row.Method)
	}
}

// TestThePageHasTheTable: the operators' page has exactly the rows of the code.
func TestThePageHasTheTable(t *testing.T) {
	var want strings.Builder
	want.WriteString("| call | verb | roles |\n|---|---|---|\n")
	for _, row := range Table {
		fmt.Fprintf(&want, "| %s | %s | %s |\n", strings.TrimPrefix(row.Method, "/holdfast."), row.Verb, Names(row.Roles))
	}
	page, err := os.ReadFile("../../deploy/OPERATIONS.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## Who may do what\n")
	require.True(t, found)
	_, table, _ := strings.Cut(section, "\n| call |")
	table, _, _ = strings.Cut("| call |"+table, "\n\n")
	require.Equal(t, strings.TrimSpace(want.String()), strings.TrimSpace(table), "put this into deploy/OPERATIONS.md:\n%s", want.String())
}
