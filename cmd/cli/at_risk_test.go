package cli

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// fakeRiskAPI answers what is at risk, and records what it was asked.
type fakeRiskAPI struct {
	adminpb.UnimplementedAdminServer
	mu    sync.Mutex
	safe  bool
	err   error
	asked []string
}

func (f *fakeRiskAPI) note(call string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, call)
	return f.err
}

func (f *fakeRiskAPI) AtRisk(_ context.Context, req *adminpb.AtRiskRequest) (*adminpb.AtRiskResponse, error) {
	return &adminpb.AtRiskResponse{
		Safe: f.safe, Nodes: req.GetNodes(), Members: req.GetMembers(), Summary: "the summary",
		Volumes:      []*adminpb.VolumeRisk{{Volume: "v1", Impact: "degraded"}, {Volume: "v2", Impact: "lost", Reason: "why", Used: true}},
		Publications: []*adminpb.PublicationRisk{{Volume: "v2", Node: "n1"}},
		Snapshots:    []*adminpb.SnapshotRisk{{Snapshot: "s1", Source: "v1", Node: "n1"}},
	}, f.note("at risk")
}

func (f *fakeRiskAPI) Tolerance(_ context.Context, req *adminpb.ToleranceRequest) (*adminpb.ToleranceResponse, error) {
	one := &adminpb.Tolerance{Loss: 1}
	resp := &adminpb.ToleranceResponse{Volumes: []*adminpb.VolumeTolerance{{Volume: "v" + req.GetAfter(), Node: one, Zone: one, Site: one}}}
	if req.GetAfter() == "" && req.GetVolume() == "" {
		resp.Next, resp.Cluster = "1", &adminpb.ClusterTolerance{Node: one, Zone: one, Site: one, Members: 1}
	}
	return resp, f.note("tolerance " + req.GetVolume())
}

func (f *fakeRiskAPI) RebootSafe(_ context.Context, req *adminpb.RebootSafeRequest) (*adminpb.RebootSafeResponse, error) {
	return &adminpb.RebootSafeResponse{Node: req.GetNode(), Safe: f.safe, Reasons: []string{"the reason"}}, f.note("reboot")
}

func (f *fakeRiskAPI) ClaimMaintenance(_ context.Context, req *adminpb.RebootSafeRequest) (*adminpb.RebootSafeResponse, error) {
	what := "release"
	if req.GetClaim() {
		what = "claim"
	}
	return &adminpb.RebootSafeResponse{Node: req.GetNode(), Safe: f.safe, Claimed: 7}, f.note(what)
}

func TestQuestionsOfMaintenance(t *testing.T) {
	away := status.Error(codes.Unavailable, "node n1 cannot be reached")
	for name, tc := range map[string]struct {
		args           []string
		safe           bool
		err            error
		code           int
		asked          []string
		stdout, stderr string
	}{
		"nothing is at risk":        {args: []string{"volumes", "at-risk", "--if-node", "n1,n2", "--if-member", "c1"}, safe: true, asked: []string{"at risk"}, stdout: "without n1, n2, c1: the summary"},
		"something is":              {args: []string{"volumes", "at-risk", "--if-zone", "z"}, code: exit.Refused, asked: []string{"at risk"}, stdout: "the summary"},
		"what is lost":              {args: []string{"volumes", "at-risk", "--if-node", "n1", "--condition", "lost"}, code: exit.Refused, asked: []string{"at risk"}, stdout: "DETAIL\nlost    volume  v2  -     -     why (in use)\nwithout n1"},
		"as JSON, sorted":           {args: []string{"volumes", "at-risk", "--if-node", "n1", "--sort-by", "-id", "--kind", "volume,snapshot", "-o", "json"}, safe: true, asked: []string{"at risk"}, stdout: `"publications": []`},
		"an unknown column":         {args: []string{"volumes", "at-risk", "--if-node", "n1", "--sort-by", "size"}, code: exit.Usage, stderr: "impact"},
		"nothing stops":             {args: []string{"volumes", "at-risk"}, code: exit.Usage, stderr: "--if-node"},
		"no quorum":                 {args: []string{"volumes", "at-risk", "--if-site", "A"}, err: away, code: exit.Unavailable, asked: []string{"at risk"}, stderr: "say what is at risk"},
		"all pages":                 {args: []string{"volumes", "tolerance"}, asked: []string{"tolerance ", "tolerance "}, stdout: "controllers 1"},
		"of one volume":             {args: []string{"volumes", "tolerance", "pvc-1"}, asked: []string{"tolerance pvc-1"}, stdout: "1/0"},
		"it may be rebooted":        {args: []string{"nodes", "reboot-safe", "n1"}, safe: true, asked: []string{"reboot"}, stdout: "may be rebooted now"},
		"it may not":                {args: []string{"nodes", "reboot-safe", "n1"}, code: exit.Refused, asked: []string{"reboot"}, stdout: "the reason"},
		"nobody can tell":           {args: []string{"nodes", "reboot-safe", "n1"}, err: away, code: exit.Unavailable, asked: []string{"reboot"}, stderr: "cannot be reached"},
		"an older build":            {args: []string{"nodes", "reboot-safe", "n1"}, err: status.Error(codes.Unimplemented, "x"), code: exit.Unavailable, asked: []string{"reboot"}, stderr: "older build"},
		"a claim":                   {args: []string{"nodes", "reboot-safe", "n1", "--claim"}, safe: true, asked: []string{"claim"}, stdout: "in maintenance since index 7"},
		"a claim that is not given": {args: []string{"nodes", "reboot-safe", "n1", "--claim"}, code: exit.Refused, asked: []string{"claim"}, stdout: "MAY NOT"},
		"a release":                 {args: []string{"nodes", "reboot-safe", "n1", "--release"}, asked: []string{"release"}},
		"both":                      {args: []string{"nodes", "reboot-safe", "n1", "--release", "--claim"}, code: exit.Usage, stderr: "one of --claim and --release"},
		"of no node":                {args: []string{"nodes", "reboot-safe"}, code: exit.Usage, stderr: "a node's id"},
	} {
		t.Run(name, func(t *testing.T) {
			api := &fakeRiskAPI{safe: tc.safe, err: tc.err}
			flags := serveAdmin(t, api)
			for range 2 {
				api.asked = nil
				var stdout, stderr bytes.Buffer
				require.Equal(t, tc.code, Main(append(tc.args, flags...), &stdout, &stderr), stderr.String())
				require.Contains(t, stdout.String(), tc.stdout)
				require.Contains(t, stderr.String(), tc.stderr)
				require.Equal(t, tc.asked, api.asked)
			}
		})
	}
}

// A drain that is waited for cordons once: an undrain meanwhile is not undone, and ends the wait.
func TestAnUndrainEndsTheWaitOfADrain(t *testing.T) {
	waitInterval = time.Millisecond
	args := []string{"nodes", "drain", "n1", "--host-id", "h", "--yes", "--wait"}
	for name, tc := range map[string]struct {
		answers []string
		code    int
		plans   int
		stderr  string
	}{
		"until it is empty":   {answers: []string{"waiting", "waiting", "done"}, plans: 2, stderr: "drain n1: 0 volumes still published"},
		"until it is undone":  {answers: []string{"waiting", "todo"}, plans: 1, code: exit.Refused, stderr: "ended by an undrain"},
		"nothing is there":    {answers: []string{"done"}},
		"it could not cordon": {answers: []string{"blocked"}, code: exit.Refused, stderr: "1 steps are blocked"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &fakeAdminAPI{answers: tc.answers}
			var stdout, stderr bytes.Buffer
			require.Equal(t, tc.code, Main(append(args, a.serve(t)...), &stdout, &stderr), stderr.String())
			require.Contains(t, stderr.String(), tc.stderr)
			require.Len(t, a.carriedOut, 1)
			require.Len(t, a.plans, tc.plans)
		})
	}
}
