package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

func TestVerbsOfReplication(t *testing.T) {
	waitInterval = time.Millisecond
	for name, tc := range map[string]struct {
		args           []string
		answers        []string
		want           *adminpb.PlanRequest
		code, carried  int
		stdout, stderr string
	}{
		"S39: the plan is bound to the role": {args: []string{"volumes", "promote", "pvc-1", "--site", "B"}, answers: []string{"todo"},
			want: &adminpb.PlanRequest{Verb: "promote", Volume: "pvc-1", Site: "B"}, stdout: "todo", stderr: "with --role 7 --yes carries this out"},
		"forced, carried out": {args: []string{"volumes", "promote", "pvc-1", "--site", "B", "--force", "--reason", "A burnt", "--role", "7", "--yes"}, answers: []string{"done"}, carried: 1,
			want: &adminpb.PlanRequest{Verb: "promote", Volume: "pvc-1", Site: "B", Force: true, Reason: "A burnt", Role: 7}, stdout: "done"},
		"of a group, and waited for": {args: []string{"groups", "demote", "shop", "--site", "A", "--yes", "--wait"}, answers: []string{"waiting", "done"}, carried: 2,
			want: &adminpb.PlanRequest{Verb: "demote", Group: "shop", Site: "A"}, stdout: "done", stderr: "the summary; the detail"},
		"S48: a forced resync": {args: []string{"groups", "resync", "shop", "--site", "A", "--force", "--discard-unkept", "--yes"}, answers: []string{"waiting"}, carried: 1,
			want: &adminpb.PlanRequest{Verb: "resync", Group: "shop", Site: "A", Force: true, DiscardUnkept: true}, stdout: "waiting", stderr: "goes on later"},
		"enabled with all there is": {args: []string{"volumes", "enable-replication", "pvc-1", "--site", "A", "--peer-site", "B", "--peer-node", "n2", "--protocol", "A", "--discard-unkept", "--separately", "--freeze-isolated"},
			answers: []string{"todo"}, stdout: "todo",
			want: &adminpb.PlanRequest{Verb: "enable-replication", Volume: "pvc-1", Site: "A", PeerSite: "B", PeerNode: "n2", Protocol: "A", DiscardUnkept: true, Separately: true, FreezeIsolated: true}},
		"what is blocked is a no": {args: []string{"groups", "disable-replication", "shop", "--site", "A", "--yes"}, answers: []string{"blocked"}, carried: 1, code: exit.Refused,
			want: &adminpb.PlanRequest{Verb: "disable-replication", Group: "shop", Site: "A"}, stdout: "blocked", stderr: "disable-replication shop: 1 steps are blocked"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &fakeAdminAPI{answers: tc.answers}
			var stdout, stderr bytes.Buffer
			code := Main(append(tc.args, a.serve(t)...), &stdout, &stderr)
			require.Equal(t, tc.code, code, stderr.String())
			require.Contains(t, stdout.String(), tc.stdout)
			require.Contains(t, stderr.String(), tc.stderr)
			require.Len(t, a.carriedOut, tc.carried)
			for _, got := range append(a.plans, a.carriedOut...) {
				require.Equal(t, tc.want.String(), got.String())
			}
		})
	}
}

// Wrong input is one line, and asks no controller.
func TestVerbsOfReplicationRefuseWrongInput(t *testing.T) {
	for text, args := range map[string][]string{
		"name the site with --site":               {"volumes", "promote", "pvc-1"},
		"name the other site with --peer-site":    {"volumes", "enable-replication", "pvc-1", "--site", "A"},
		"are the same, A: name two sites":         {"groups", "enable-replication", "shop", "--site", "A", "--peer-site", "A"},
		`there is no protocol "B": choose A or C`: {"groups", "enable-replication", "shop", "--site", "A", "--peer-site", "B", "--protocol", "B"},
		"--discard-unkept goes with --force":      {"groups", "resync", "shop", "--site", "A", "--discard-unkept"},
		"--separately goes with --force":          {"groups", "promote", "shop", "--site", "B", "--separately"},
		"a volume's id or name":                   {"volumes", "demote", "--site", "A"},
		"a volume group's id or name":             {"groups", "demote", "x", "y", "--site", "A"},
		"unknown flag: --force":                   {"volumes", "demote", "pvc-1", "--site", "A", "--force"},
		"no-number":                               {"volumes", "demote", "pvc-1", "--site", "A", "--role", "no-number"},
	} {
		t.Run(text, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, exit.Usage, Main(append(args, "--endpoints", "192.0.2.1:1"), &stdout, &stderr))
			require.Contains(t, stderr.String(), text)
			require.Equal(t, 1, bytes.Count(stderr.Bytes(), []byte("\n")), stderr.String())
			require.Empty(t, stdout.String())
		})
	}
}
