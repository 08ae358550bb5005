package cli

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// fakeUpgradeAPI answers as a cluster at a level, and counts the calls that raise it.
type fakeUpgradeAPI struct {
	fakeAdminAPI
	answer      *adminpb.UpgradeResponse
	finishCalls int
}

func (u *fakeUpgradeAPI) UpgradeStatus(context.Context, *adminpb.UpgradeRequest) (*adminpb.UpgradeResponse, error) {
	return u.answer, nil
}

func (u *fakeUpgradeAPI) FinishUpgrade(context.Context, *adminpb.UpgradeRequest) (*adminpb.UpgradeResponse, error) {
	u.finishCalls++
	return u.answer, nil
}

// S72: the level is raised only with --yes; with members or nodes missing the exit code is Refused.
func TestUpgradeFinishShowsFirst(t *testing.T) {
	ready := &adminpb.UpgradeResponse{Target: 2, FeatureLevel: 1, Ready: true, Summary: "all understand it"}
	waits := &adminpb.UpgradeResponse{Target: 2, FeatureLevel: 1, Summary: "it waits", Members: []*adminpb.Understanding{{Id: "c2", FeatureLevel: 1, Missing: "upgrade it"}}}
	done := &adminpb.UpgradeResponse{Target: 2, FeatureLevel: 2, Ready: true, Done: true, Summary: "it is done"}
	for name, tc := range map[string]struct {
		args           []string
		answer         *adminpb.UpgradeResponse
		raised, code   int
		stdout, stderr string
	}{
		"status":                 {args: []string{"upgrade", "status"}, answer: waits, stdout: "upgrade it"},
		"finish shows":           {args: []string{"upgrade", "finish"}, answer: ready, stdout: "all understand it", stderr: "with --yes carries this out"},
		"finish, with --yes":     {args: []string{"upgrade", "finish", "--yes"}, answer: done, raised: 1, stdout: "it is done"},
		"somebody is missing":    {args: []string{"upgrade", "finish", "--yes"}, answer: waits, raised: 1, code: exit.Refused, stdout: "it waits", stderr: "not all understand feature level 2"},
		"it was done":            {args: []string{"upgrade", "finish"}, answer: done, stdout: "it is done"},
		"as JSON":                {args: []string{"upgrade", "status", "-o", "json"}, answer: waits, stdout: `"feature_level": 1`},
		"no such sub-command":    {args: []string{"upgrade", "begin"}, answer: waits, code: exit.Usage, stderr: "begin"},
		"a level that is no one": {args: []string{"upgrade", "status", "--level", "x"}, answer: waits, code: exit.Usage, stderr: "level"},
	} {
		t.Run(name, func(t *testing.T) {
			u := &fakeUpgradeAPI{answer: tc.answer}
			flags := serveAdmin(t, u)
			if tc.code == exit.Usage {
				flags = nil
			}
			var stdout, stderr bytes.Buffer
			require.Equal(t, tc.code, Main(append(tc.args, flags...), &stdout, &stderr), stderr.String())
			require.Contains(t, stdout.String(), tc.stdout)
			require.Contains(t, stderr.String(), tc.stderr)
			require.Equal(t, tc.raised, u.finishCalls)
		})
	}
}

// TestUpgradeAtAnOldController: a controller of a build before feature levels is skipped, and reported as too old.
func TestUpgradeAtAnOldController(t *testing.T) {
	a := &fakeAdminAPI{}
	var stdout, stderr bytes.Buffer
	require.Equal(t, exit.Unavailable, Main(append([]string{"upgrade", "status"}, serveAdmin(t, a)...), &stdout, &stderr))
	require.Contains(t, stderr.String(), "upgrade the controllers first")
}
