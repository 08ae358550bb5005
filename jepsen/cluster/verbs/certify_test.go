package verbs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// killsOfCertify is at how many of its calls the command is killed: each run makes hundreds.
const killsOfCertify = 5

// certifier runs `holdfast certify` through gates before all controllers.
type certifier struct {
	*stateVerbs
	report string
	flags  []string
}

// TestS71_CertifyRemovesWhatAKilledRunLeft: wherever the command is killed, the same command goes on from a clean cluster; it touches no volume
// that it did not make, and its report says what a cluster was shown to do.
func TestS71_CertifyRemovesWhatAKilledRunLeft(t *testing.T) {
	o := start(t, harness.Options{Nodes: 2})
	k := &certifier{stateVerbs: &stateVerbs{operator: o, gate: o.openGate()}, report: filepath.Join(t.TempDir(), "report.json")}
	k.findControllers()
	co := o.NewCO()
	kept, err := co.Create(t.Context(), harness.Spec{Name: "pvc-kept"})
	require.NoError(t, err)
	before := k.volumes()

	k.planOnly(before)
	k.gate.Arm(0, nil)
	k.certify(0)
	k.requireReport()
	steps := k.gate.Steps()
	require.Equal(t, before, k.volumes(), "all of it is removed")

	for part := 1; part <= 3; part++ { // Ctrl-C
		k.interrupted(steps * part / 4)
		require.Equal(t, before, k.volumes(), "an interrupted run removes what it made")
	}
	drilled(t, []string{"certify"})
	left := 0
	for kill := 1; kill <= killsOfCertify; kill++ {
		k.certify(steps * kill / (killsOfCertify + 1))
		require.Contains(t, k.volumes(), kept.ID)
		left += len(k.volumes()) - len(before)
	}
	require.Positive(t, left, "a killed run leaves something")
	k.certify(0)
	k.requireReport()
	require.Equal(t, before, k.volumes())
	k.refusesOthers()
	require.NoError(t, co.Delete(t.Context(), kept))
	require.NoError(t, o.AwaitCleanAudit(t.Context()))
}

// findControllers names the gate and the other controllers.
func (k *certifier) findControllers() {
	k.t.Helper()
	l, err := k.Layout()
	require.NoError(k.t, err)
	addresses := []string{k.gate.Address}
	for _, c := range l.Controllers[1:] {
		addresses = append(addresses, c.API)
	}
	admin := k.certificate("admin", "dev")
	k.flags = []string{"--endpoints", strings.Join(addresses, ","), "--cert", admin + ".crt", "--key", admin + ".key", "--ca", filepath.Join(filepath.Dir(admin), "ca.crt"), "--size", "8MiB", "--burst", "3", "--leftovers-older-than", "0s"}
}

// certify runs the command, which is killed at a step; 0: at none, and it succeeds.
func (k *certifier) certify(step int) {
	k.t.Helper()
	cmd := exec.CommandContext(k.t.Context(), k.binary, append([]string{"certify", "--out", k.report, "--yes"}, k.flags...)...)
	k.gate.Arm(step, func() bool { _ = cmd.Process.Kill(); return true })
	out, err := cmd.CombinedOutput()
	if step > 0 && k.gate.Halted() {
		return
	}
	require.NoError(k.t, err, "%s", out)
}

// interrupted has the command get SIGINT at a step. It says so, and leaves no report of its own.
func (k *certifier) interrupted(step int) {
	k.t.Helper()
	report := filepath.Join(k.t.TempDir(), "interrupted.json")
	cmd := exec.CommandContext(k.t.Context(), k.binary, append([]string{"certify", "--out", report, "--yes"}, k.flags...)...)
	k.gate.Arm(step, func() bool { _ = cmd.Process.Signal(syscall.SIGINT); return false })
	out, err := cmd.CombinedOutput()
	require.Error(k.t, err, "%s", out)
	require.True(k.t, k.gate.Halted())
	require.NoFileExists(k.t, report)
}

// volumes are the ids of all.
func (k *certifier) volumes() []string {
	k.t.Helper()
	return regexp.MustCompile(`hf-[0-9a-f-]{36}`).FindAllString(k.ask("volumes", "list", "--sort-by", "id"), -1)
}

func (k *certifier) planOnly(before []string) {
	k.t.Helper()
	for range 2 {
		out := k.must(append([]string{"certify"}, k.flags...)...)
		require.Contains(k.t, out, "on hosts n1, n2, and removed again")
		require.Equal(k.t, before, k.volumes())
	}
	require.NoFileExists(k.t, k.report)
}

// requireReport checks the report as its reader does, and what is in it.
func (k *certifier) requireReport() {
	k.t.Helper()
	ca := []string{"--ca", filepath.Join(filepath.Dir(k.certificate("admin", "dev")), "ca.crt")}
	verify := append([]string{"certify", "verify", k.report}, ca...)
	require.Contains(k.t, k.must(verify...), "the signature is good")
	var report struct {
		Result    string
		Rows      []struct{ ID, Result, Why string }
		Handovers []struct {
			Problems []string
			Created  []struct{ ID, At string }
		}
		Hashes     []struct{ Of map[string]string }
		NotChecked struct{ Of, Count int } `json:"not_checked"`
	}
	require.NoError(k.t, json.Unmarshal([]byte(k.must(append(verify, "-o", "json")...)), &report))
	require.Equal(k.t, "passed", report.Result)
	for _, r := range report.Rows {
		require.Equal(k.t, "passed", r.Result, "%s: %s", r.ID, r.Why)
	}
	require.Equal(k.t, report.NotChecked.Of-len(report.Rows), report.NotChecked.Count)
	require.Len(k.t, report.Handovers, 6, "every controller twice")
	for _, h := range report.Handovers {
		require.Empty(k.t, h.Problems)
		require.Len(k.t, h.Created, 3)
		for _, c := range h.Created {
			require.NotEmpty(k.t, c.At)
		}
	}
	require.Len(k.t, report.Hashes, 2)
	require.Len(k.t, report.Hashes[1].Of, 3)

	content, err := os.ReadFile(k.report)
	require.NoError(k.t, err)
	altered := filepath.Join(k.t.TempDir(), "altered.json")
	require.NoError(k.t, os.WriteFile(altered, []byte(strings.Replace(string(content), `"passed"`, `"Passed"`, 1)), 0o600))
	res := k.Run(k.t.Context(), append([]string{"certify", "verify", altered}, ca...)...)
	require.Equal(k.t, 1, res.Code)
	require.Contains(k.t, res.Stderr, "altered")
}

// refusesOthers: a volume that an operator made under a scratch volume's name is not touched, and nothing is begun.
func (k *certifier) refusesOthers() {
	k.t.Helper()
	k.ask("volumes", "create", "holdfast-certify-0123456789abcdef-mine", "--size", "8MiB", "--yes")
	before := k.volumes()
	for _, flags := range [][]string{nil, {"--out", k.report, "--yes"}} {
		res := k.Run(k.t.Context(), append(append([]string{"certify"}, flags...), k.flags...)...)
		require.Equal(k.t, 1, res.Code, res.Stdout)
		require.Contains(k.t, res.Stderr, "for another reason")
		require.Equal(k.t, before, k.volumes())
	}
	id := regexp.MustCompile(`hf-[0-9a-f-]{36}`).FindString(k.ask("volumes", "list", "holdfast-certify-0123456789abcdef-mine"))
	k.ask("volumes", "delete", id, "--yes")
}
