package cli

import (
	"bytes"
	"cmp"
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// fakeAdminAPI answers plans, and records the requests.
type fakeAdminAPI struct {
	adminpb.UnimplementedAdminServer
	mu         sync.Mutex
	plans      []*adminpb.PlanRequest
	carriedOut []*adminpb.PlanRequest
	answers    []string // the step's state in each call's answer; the last one repeats
}

func (a *fakeAdminAPI) Plan(_ context.Context, req *adminpb.PlanRequest) (*adminpb.PlanResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.plans = append(a.plans, req)
	return a.answer(req), nil
}

func (a *fakeAdminAPI) CarryOut(_ context.Context, req *adminpb.PlanRequest) (*adminpb.PlanResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.carriedOut = append(a.carriedOut, req)
	return a.answer(req), nil
}

func (a *fakeAdminAPI) answer(req *adminpb.PlanRequest) *adminpb.PlanResponse {
	state := a.answers[0]
	if len(a.answers) > 1 {
		a.answers = a.answers[1:]
	}
	return &adminpb.PlanResponse{Index: 9, Verb: req.GetVerb(), Node: req.GetNode(), HostId: cmp.Or(req.GetHostId(), "h"), Summary: "the summary", Role: 7,
		Steps: []*adminpb.PlanStep{{Action: "step", State: state, VolumeName: "pvc-1", Detail: "the detail"}}}
}

// serve serves the API with certificates, and returns the flags for its address.
func (a *fakeAdminAPI) serve(t *testing.T) []string {
	t.Helper()
	return serveAdmin(t, a)
}

// serveAdmin serves an API with certificates, and returns the flags for its address.
func serveAdmin(t *testing.T, a adminpb.AdminServer) []string {
	t.Helper()
	ca, dir := filepath.Join(t.TempDir(), "ca"), t.TempDir()
	require.NoError(t, pki.MakeCA(ca, "one"))
	issue := func(role pki.Role) pki.Files {
		files, err := pki.Issue(ca, filepath.Join(dir, string(role)), pki.Identity{Role: role, Name: "x"}, time.Hour)
		require.NoError(t, err)
		return files
	}
	own, err := pki.Load(issue(pki.Controller))
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(own.Server(pki.Admin))))
	adminpb.RegisterAdminServer(server, a)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	files := issue(pki.Admin)
	return []string{"--endpoints", listener.Addr().String(), "--cert", files.Cert, "--key", files.Key, "--ca", files.CA}
}

func TestVerbsOnlyShowThePlanWithoutYes(t *testing.T) {
	for name, tc := range map[string]struct {
		args           []string
		answers        []string
		want           *adminpb.PlanRequest
		code           int
		carried        int // calls of CarryOut
		stdout, stderr string
	}{
		"drain shows": {args: []string{"nodes", "drain", "n1"}, answers: []string{"todo"},
			want: &adminpb.PlanRequest{Verb: "drain", Node: "n1"}, stdout: "the summary", stderr: "with --host-id h --yes carries this out"},
		"as JSON, which stays clean": {args: []string{"nodes", "evict", "n1", "-o", "json"}, answers: []string{"todo"},
			want: &adminpb.PlanRequest{Verb: "evict", Node: "n1"}, stdout: `"state": "todo"`, stderr: "nothing was changed"},
		"nothing is to do": {args: []string{"nodes", "drain", "n1"}, answers: []string{"done"},
			want: &adminpb.PlanRequest{Verb: "drain", Node: "n1"}, stdout: "done"},
		"lost with a host and a reason": {args: []string{"nodes", "lost", "n1", "--host-id", "h", "--reason", "burnt"}, answers: []string{"todo"},
			want: &adminpb.PlanRequest{Verb: "lost", Node: "n1", HostId: "h", Reason: "burnt"}, stdout: "todo"},
		"replace, carried out": {args: []string{"nodes", "replace", "n1", "--host-id", "h", "--yes"}, answers: []string{"done"}, carried: 1,
			want: &adminpb.PlanRequest{Verb: "replace", Node: "n1", HostId: "h"}, stdout: "done"},
		"undrain shows": {args: []string{"nodes", "undrain", "n1"}, answers: []string{"todo"},
			want: &adminpb.PlanRequest{Verb: "undrain", Node: "n1"}, stdout: "todo", stderr: "--host-id h --yes"},
		"adopt, carried out": {args: []string{"nodes", "adopt", "n1", "--host-id", "h", "--yes"}, answers: []string{"done"}, carried: 1,
			want: &adminpb.PlanRequest{Verb: "adopt", Node: "n1", HostId: "h"}, stdout: "done"},
		"S71 not without the host that the plan shows": {args: []string{"nodes", "lost", "n1", "--yes"}, answers: []string{"todo"}, code: exit.Usage,
			want: &adminpb.PlanRequest{Verb: "lost", Node: "n1"}, stdout: "todo", stderr: "the same command with --host-id h carries it out"},
		"S71 nor any other verb": {args: []string{"nodes", "evict", "n1", "--yes", "--wait"}, answers: []string{"todo"}, code: exit.Usage,
			want: &adminpb.PlanRequest{Verb: "evict", Node: "n1"}, stdout: "todo", stderr: "--host-id h"},
		"a host that is reached is lost by a word of its own": {args: []string{"nodes", "replace", "n1", "--host-id", "h", "--even-if-reachable", "--yes"}, answers: []string{"done"}, carried: 1,
			want: &adminpb.PlanRequest{Verb: "replace", Node: "n1", HostId: "h", EvenIfReachable: true}, stdout: "done"},
		"what waits goes on later": {args: []string{"nodes", "evict", "n1", "--host-id", "h", "--yes"}, answers: []string{"waiting"}, carried: 1,
			want: &adminpb.PlanRequest{Verb: "evict", Node: "n1", HostId: "h"}, stdout: "waiting", stderr: "goes on later"},
		"or at once, until it is done": {args: []string{"nodes", "evict", "n1", "--host-id", "h", "--yes", "--wait"}, answers: []string{"waiting", "todo", "done"}, carried: 3,
			want: &adminpb.PlanRequest{Verb: "evict", Node: "n1", HostId: "h"}, stdout: "done", stderr: "the summary"},
		"what is blocked is a no": {args: []string{"nodes", "evict", "n1", "--host-id", "h", "--yes", "--wait"}, answers: []string{"blocked"}, carried: 1, code: exit.Refused,
			want: &adminpb.PlanRequest{Verb: "evict", Node: "n1", HostId: "h"}, stdout: "blocked", stderr: "1 steps are blocked"},
		"a forced decision": {args: []string{"volumes", "force-primary", "pvc-1", "n2", "--reason", "n1 burnt", "--peer-dead", "--host-id", "h", "--yes"}, answers: []string{"done"}, carried: 1,
			want: &adminpb.PlanRequest{Verb: "force-primary", Volume: "pvc-1", Node: "n2", HostId: "h", Reason: "n1 burnt", PeerDead: true}, stdout: "done"},
	} {
		t.Run(name, func(t *testing.T) {
			waitInterval = time.Millisecond
			a := &fakeAdminAPI{answers: tc.answers}
			var stdout, stderr bytes.Buffer
			code := Main(append(tc.args, a.serve(t)...), &stdout, &stderr)
			require.Equal(t, tc.code, code, stderr.String())
			require.Contains(t, stdout.String(), tc.stdout)
			require.Contains(t, stderr.String(), tc.stderr)
			require.Len(t, a.carriedOut, tc.carried)
			require.Equal(t, tc.carried == 0, len(a.plans) == 1)
			for _, got := range append(a.plans, a.carriedOut...) {
				require.Equal(t, tc.want.String(), got.String())
			}
		})
	}
}

// What a plan is about is in its errors: a node, CIDRs, or the volume where the node is for the server to choose.
func TestAPlanSaysWhatItIsAbout(t *testing.T) {
	for want, req := range map[string]*adminpb.PlanRequest{
		"n1":                        {Node: "n1", Volume: "pvc-1"},
		"pvc-1":                     {Volume: "pvc-1"},
		"192.0.2.1/32 192.0.2.2/32": {Cidrs: []string{"192.0.2.1/32", "192.0.2.2/32"}},
	} {
		require.Equal(t, want, (&planVerb{req: req}).subject())
	}
}
