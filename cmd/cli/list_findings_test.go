package cli

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// fakeFindings answers what was found of a cluster, and refuses when it has nothing.
type fakeFindings struct {
	adminpb.UnimplementedAdminServer
	mu      sync.Mutex
	doctor  *adminpb.DoctorResponse
	upgrade *adminpb.UpgradeResponse
	audit   *adminpb.AuditResponse
}

// change changes what is answered from now on.
func (f *fakeFindings) change(how func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how()
}

func answerOf[A proto.Message](f *fakeFindings, of func() A) (A, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := of()
	if !answer.ProtoReflect().IsValid() {
		return answer, status.Error(codes.PermissionDenied, "not you")
	}
	return proto.CloneOf(answer), nil
}

func (f *fakeFindings) Doctor(context.Context, *adminpb.DoctorRequest) (*adminpb.DoctorResponse, error) {
	return answerOf(f, func() *adminpb.DoctorResponse { return f.doctor })
}

func (f *fakeFindings) UpgradeStatus(context.Context, *adminpb.UpgradeRequest) (*adminpb.UpgradeResponse, error) {
	return answerOf(f, func() *adminpb.UpgradeResponse { return f.upgrade })
}

func (f *fakeFindings) Audit(context.Context, *adminpb.AuditRequest) (*adminpb.AuditResponse, error) {
	return answerOf(f, func() *adminpb.AuditResponse { return f.audit })
}

func someFindings() *fakeFindings {
	return &fakeFindings{
		doctor: &adminpb.DoctorResponse{Index: 7, Findings: []*adminpb.Diagnosis{
			{Severity: "error", Subject: "member c1", Found: "it does not answer", Remedy: "start it"},
			{Severity: "unknown", Subject: "host n2", Found: "its host is not known", Remedy: "ask again"},
			{Severity: "warn", Subject: "pair n1/n2", Found: "the link is slow"},
			{Severity: "warn", Subject: "pool p1 on n1", Found: "it is 91 % full", Remedy: "make it larger"},
			{Severity: "ok", Subject: "host n1", Found: "its clock is set"},
		}},
		upgrade: &adminpb.UpgradeResponse{Index: 8, FeatureLevel: 1, Target: 2, Summary: "it waits", Warnings: []string{"mind the sites"},
			Members: []*adminpb.Understanding{{Id: "c1", Version: "v10", FeatureLevel: 2}, {Id: "c2", Missing: "it does not answer"}},
			Nodes:   []*adminpb.Understanding{{Id: "n1", Version: "v9", FeatureLevel: 1, Missing: "upgrade it"}, {Id: "n2", Version: "v10", FeatureLevel: 2}}},
		audit: &adminpb.AuditResponse{Index: 9, Checked: 4,
			Orphans: []*adminpb.Finding{{Node: "n2", Kind: "image", Id: "hv-9", Path: "/pool/hv-9"}, {Node: "n1", Kind: "loop", Id: "hv-8"}},
			Wrong:   []*adminpb.Finding{{Node: "n1", Kind: "mapping", Id: "hv-1", Detail: "another header"}},
			Unknown: []*adminpb.Unknown{{Node: "n3", Detail: "unreachable"}}},
	}
}

// columnOf are the cells of a column that has no spaces in it or in those before, of a table without head; what is below a row or
// the table is left out.
func columnOf(table string, column, foot int) string {
	var cells []string
	lines := strings.Split(strings.TrimRight(table, "\n"), "\n")
	for _, line := range lines[1 : len(lines)-foot] {
		if !strings.HasPrefix(line, " ") {
			cells = append(cells, strings.Fields(line)[column])
		}
	}
	return strings.Join(cells, " ")
}

func TestFindingsAreSortedAndSelected(t *testing.T) {
	flags := serveAdmin(t, someFindings())
	for _, tc := range []struct {
		args         string
		column, foot int
		code         int
		want         string
	}{
		{"doctor", 0, 1, exit.Refused, "error unknown warn warn"},
		{"doctor --all --sort-by severity", 0, 1, exit.Refused, "ok warn warn unknown error"},
		{"doctor --all --sort-by -severity,-subject", 0, 1, exit.Refused, "error unknown warn warn ok"},
		{"doctor --severity ok", 0, 1, exit.Refused, "ok"},
		{"doctor --severity warn,unknown", 0, 1, exit.Refused, "unknown warn warn"},
		{"doctor --node n1", 0, 1, exit.Refused, "warn warn"},
		{"doctor --node n2 --severity unknown", 0, 1, exit.Refused, "unknown"},
		{"doctor --member c1", 0, 1, exit.Refused, "error"},
		{"doctor --node nowhere", 0, 1, exit.Refused, ""},
		{"upgrade status", 1, 2, exit.OK, "c1 c2 n1 n2"},
		{"upgrade status --sort-by version,-id", 1, 2, exit.OK, "n1 n2 c1 c2"}, // that which is not known is last
		{"upgrade status --sort-by -level", 1, 2, exit.OK, "c1 n2 n1 c2"},
		{"upgrade status --role node", 1, 2, exit.OK, "n1 n2"},
		{"upgrade status --node n1", 1, 2, exit.OK, "n1"},
		{"upgrade status --condition missing", 1, 2, exit.OK, "c2 n1"},
		{"upgrade status --condition missing --condition unknown", 1, 2, exit.OK, "c2"},
		{"audit", 1, 1, exit.Refused, "n2 n1 n1 n3"},
		{"audit --sort-by node,kind", 1, 1, exit.Refused, "n1 n1 n2 n3"},
		{"audit --finding wrong,unknown", 1, 1, exit.Refused, "n1 n3"},
		{"audit --kind image", 1, 1, exit.Refused, "n2"},
		{"audit --node n1 --finding orphan", 1, 1, exit.Refused, "n1"},
	} {
		for range 2 {
			code, stdout, stderr := runCommand(append(strings.Fields(tc.args), flags...)...)
			require.Equal(t, tc.code, code, "%s: %s", tc.args, stderr)
			require.Equal(t, tc.want, columnOf(stdout, tc.column, tc.foot), tc.args)
		}
	}
}

func TestASelectionHidesNeitherRemediesNorWhatTheRestIs(t *testing.T) {
	flags := serveAdmin(t, someFindings())
	for args, want := range map[string][]string{
		"doctor --node n1":      {"make it larger", "1 error, 1 not known, 2 warnings at index 7"},
		"upgrade status --role": {"WARNING: mind the sites", "it waits (index 8)"},
		"audit --kind":          {"4 replicas and snapshots checked at index 9: 2 orphans, 0 missing, 1 wrong, 0 pending, 1 host not asked"},
	} {
		words := strings.Fields(args)
		switch words[len(words)-1] {
		case "--role":
			words = append(words, "node")
		case "--kind":
			words = append(words, "image")
		}
		_, stdout, _ := runCommand(append(words, flags...)...)
		for _, text := range want {
			require.Contains(t, stdout, text, args)
		}
	}
}

func TestFindingsKeepTheirJSON(t *testing.T) {
	flags := serveAdmin(t, someFindings())
	for args, want := range map[string]string{
		"doctor --node n2 --severity unknown": `{"index":7,"findings":[{"severity":"unknown","subject":"host n2","found":"its host is not known","remedy":"ask again","histogram":[]}]}`,
		"upgrade status --node n2": `{"index":8,"feature_level":1,"target":2,"members":[],"nodes":[{"id":"n2","version":"v10","feature_level":2,"missing":""}],` +
			`"ready":false,"done":false,"summary":"it waits","warnings":["mind the sites"]}`,
		"audit --finding unknown": `{"index":9,"orphans":[],"missing":[],"pending":[],"checked":4,"unknown":[{"node":"n3","detail":"unreachable"}],"wrong":[]}`,
	} {
		for range 2 {
			_, stdout, stderr := runCommand(append(append(strings.Fields(args), "-o", "json"), flags...)...)
			require.JSONEq(t, want, stdout, "%s: %s", args, stderr)
		}
	}
}

// TestTheDoctorsWatchGoesOnWhateverIsFound: what fills is one finding that changes, with its remedy on its line.
func TestTheDoctorsWatchGoesOnWhateverIsFound(t *testing.T) {
	f := someFindings()
	f.doctor.Findings = f.doctor.GetFindings()[3:]
	w := watch(t, append([]string{"doctor"}, serveAdmin(t, f)...)...)
	require.Regexp(t, `^TIME +CHANGE +SEVERITY +SUBJECT +FOUND$`, w.line(w.stdout))
	require.Regexp(t, `added +warn +pool p1 on n1 +it is 91 % full: make it larger$`, w.line(w.stdout))
	f.change(func() { f.doctor.Findings[0].Severity, f.doctor.Findings[0].Found = "error", "it is 95 % full" })
	require.Regexp(t, `changed +error +pool p1 on n1 +it is 95 % full: make it larger$`, w.line(w.stdout))
	f.change(func() { f.doctor.Findings = f.doctor.GetFindings()[1:] })
	require.Regexp(t, `removed +error +pool p1 on n1`, w.line(w.stdout))
	w.end()
}

func TestAWatchedUpgradeNamesTheFieldOfEachItem(t *testing.T) {
	f := someFindings()
	w := watch(t, append([]string{"upgrade", "status", "-o", "json", "--condition", "missing"}, serveAdmin(t, f)...)...)
	next := func() string {
		var got struct {
			Change, Field string
			Index         uint64
			Item          struct{ ID string }
		}
		require.NoError(t, json.Unmarshal([]byte(w.line(w.stdout)), &got))
		require.Equal(t, uint64(8), got.Index)
		return strings.Join([]string{got.Change, got.Field, got.Item.ID}, " ")
	}
	require.Equal(t, "added members c2", next())
	require.Equal(t, "added nodes n1", next())
	for range 2 {
		f.change(func() { f.upgrade.Nodes[0].Missing = "" })
		require.Equal(t, "removed nodes n1", next())
		f.change(func() { f.upgrade.Nodes[0].Missing = "upgrade it" })
		require.Equal(t, "added nodes n1", next())
	}
	w.end()
}

func TestAWatchedAuditGoesOn(t *testing.T) {
	f := someFindings()
	w := watch(t, append([]string{"audit", "--finding", "wrong"}, serveAdmin(t, f)...)...)
	require.Contains(t, w.line(w.stdout), "FINDING")
	require.Regexp(t, `added +wrong +n1 +mapping +hv-1`, w.line(w.stdout))
	f.change(func() { f.audit.Wrong = nil })
	require.Regexp(t, `removed +wrong +n1 +mapping +hv-1`, w.line(w.stdout))
	w.end()
}

func TestAWatchOfFindingsEndsByWhatIsRefused(t *testing.T) {
	flags := serveAdmin(t, &fakeFindings{})
	for command, what := range map[string]string{"doctor": "look at the cluster", "audit": "audit the cluster", "upgrade status": "read who understands which feature level"} {
		w := watch(t, append(strings.Fields(command), flags...)...)
		err := <-w.ended
		require.Equal(t, exit.Refused, exit.Code(err))
		require.ErrorContains(t, err, what+": not you")
	}
}

func TestFindingsRefuseWhatThereIsNotInOneLine(t *testing.T) {
	flags := serveAdmin(t, someFindings())
	file, dir := filepath.Join(t.TempDir(), "none"), t.TempDir()
	for args, want := range map[string]string{
		"doctor --sort-by weight":                                    `there is no column "weight": choose from severity, subject, found`,
		"doctor --severity bad":                                      `there is no severity "bad": choose from error, unknown, warn, ok`,
		"doctor --node=":                                             `--node: a value is empty`,
		"doctor --watch --interval 1ms":                              `--interval 1ms is too short`,
		"doctor --watch -o yaml":                                     `choose -o table, wide or json`,
		"doctor -o xml":                                              `choose table, wide, json or yaml`,
		"doctor --watch --bundle " + file:                            `what is in --bundle never changes`,
		"doctor --host --severity bad":                               `there is no severity "bad"`,
		"upgrade status --sort-by who,-weight":                       `there is no column "weight": choose from who, id, version, level, missing`,
		"upgrade status --role admin":                                `there is no role "admin": choose from controller, node`,
		"upgrade status --watch --interval 1ms":                      `--interval 1ms is too short`,
		"audit --finding nothing":                                    `there is no finding "nothing": choose from orphan, missing, wrong, pending, unknown`,
		"audit --watch -o yaml":                                      `choose -o table, wide or json`,
		"audit --watch --bundle " + file:                             `what is in --bundle never changes`,
		"volumes leaks --list x --kind y":                            `there is no kind "y": choose from leak, leaked-snapshot`,
		"volumes leaks --list - --watch":                             `standard input is read once`,
		"backup list --backup-to " + dir + " --sort-by weight":       `there is no column "weight": choose from kind, cluster, incarnation`,
		"backup list --backup-to " + dir + " --kind half":            `there is no kind "half": choose from full, increment`,
		"backup list --backup-to " + dir + " --watch --interval 1ms": `--interval 1ms is too short`,
		"backup list --backup-to " + dir + " --watch -o yaml":        `choose -o table, wide or json`,
		"backup list --backup-to " + dir + " -o xml":                 `choose table, wide, json or yaml`,
		"backup list --watch":                                        `name the target with --backup-to`,
	} {
		words := strings.Fields(args)
		if words[0] != "backup" && !strings.Contains(args, "--bundle") && !strings.Contains(args, "--host") {
			words = append(words, flags...)
		}
		for range 2 {
			code, stdout, stderr := runCommand(words...)
			require.Equal(t, exit.Usage, code, "%s: %s", args, stderr)
			require.Contains(t, stderr, want, args)
			require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
			require.Empty(t, stdout)
		}
	}
}

func TestValuesOfListsAreCompletedWithoutACluster(t *testing.T) {
	for _, tc := range []struct {
		args string
		want []string
	}{
		{"doctor --severity e", []string{"error"}},
		{"doctor --severity error,w", []string{"error,warn"}},
		{"doctor --host --role c", []string{"controller"}},
		{"doctor --sort-by found,-s", []string{"found,-severity", "found,-subject"}},
		{"audit --finding o", []string{"orphan"}},
		{"audit --kind l", []string{"loop"}},
		{"upgrade status --condition m", []string{"missing"}},
		{"upgrade status --role ", []string{"controller", "node"}},
		{"volumes leaks --kind lost", []string{"lost", "lost-snapshot"}},
		{"backup list --kind f", []string{"full"}},
		{"backup list --condition ", []string{"as-named", "encrypted", "wrong"}},
		{"backup list --sort-by inc", []string{"incarnation", "incarnation-id"}},
		{"backup list -o w", []string{"wide"}},
	} {
		for range 2 {
			require.Equal(t, tc.want, completions(t, strings.Split(tc.args, " ")...), tc.args)
		}
	}
	flags := (&fakeLists{}).serve(t)
	require.Equal(t, []string{"c1"}, completions(t, append(append([]string{"doctor"}, flags...), "--member", "")...))
	require.Equal(t, []string{"n1", "n10"}, completions(t, append(append([]string{"audit"}, flags...), "--node", "n1")...))
}
