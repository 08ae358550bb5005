package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// csi-sanity v5.6.0 runs in the first guest, as a container orchestrator's sidecar does,
// against the sockets there: with one replica and with two, with filesystems and with raw
// volumes. It publishes all volumes to that guest, but does not create all of them with the
// guest's topology: hosts that the volumes must not be on are cordoned. It may skip only
// what CSI v1.13 alone adds. The short form is that of two replicas with filesystems: what has one replica passes
// it without a guest, too.
func TestCSISanityFromAGuest(t *testing.T) {
	w := newScenario(t)
	require.NoError(t, buildSanity(t.Context(), filepath.Join(w.lab.Dir(), "bin", "csi-sanity")))
	before, err := w.listObjects(t.Context())
	require.NoError(t, err)
	for _, r := range sanityRuns() {
		t.Run(r.name(), func(t *testing.T) {
			w.cordon(t, []string{"n2", "n3"}[r.replicas-1:]...)
			w.sanity(t, r)
			w.awaitNoMoreThan(t, before)
		})
	}
	w.noSplitBrain(t)
}

// cordon keeps new volumes from hosts until the scenario ends.
func (w *env) cordon(t *testing.T, nodes ...string) {
	t.Helper()
	for _, n := range nodes {
		host, err := w.cluster.Host(t.Context(), n)
		require.NoError(t, err)
		w.cluster.MustAdmin(t, "nodes", "drain", n, "--host-id", host, "--yes")
		t.Cleanup(func() { w.cluster.MustAdmin(t, "nodes", "undrain", n, "--host-id", host, "--yes") })
	}
}

// sanityRun is one run of csi-sanity.
type sanityRun struct {
	access   string // "mount" or "block"
	replicas int
}

func sanityRuns() []sanityRun {
	if !*long {
		return []sanityRun{{"mount", 2}}
	}
	return []sanityRun{{"mount", 1}, {"block", 1}, {"mount", 2}, {"block", 2}}
}

// name is that of its files, too.
func (r sanityRun) name() string { return fmt.Sprintf("csi-sanity-%s-%d", r.access, r.replicas) }

const (
	sanitySize = 64 * mi
	// sanityTimeout is for one run.
	sanityTimeout = 20 * time.Minute
	// sanityPasses is how many specs the reference driver passes.
	sanityPasses = 94
	// sanityAttempts is how often a spec is tried, and a run of which specs failed in all their attempts: those follow
	// each other at once, and a host that stands still is unreachable for seconds. csi-sanity takes UNAVAILABLE for a failure, where a sidecar repeats
	// the call: guests that stand still while others use the processors lose their leader at times.
	sanityAttempts = 4
	// maxRepeated is how many specs may pass only when they are repeated, for another reason than such an answer.
	maxRepeated = 2
	// inShort and notInShort choose the specs of the short form.
	inShort    = "Node Service|volume lifecycle|ExpandVolume|from an existing source"
	notInShort = "attach limit"
)

// buildSanity builds the binary, which has a module of its own as it needs CSI v1.13.
func buildSanity(ctx context.Context, to string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", to, "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity")
	cmd.Dir, cmd.Env = filepath.Join("..", "..", "sanity"), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build csi-sanity: %w: %s", err, out)
	}
	return nil
}

func (w *env) sanity(t *testing.T, r sanityRun) {
	t.Helper()
	g := w.guest("n1")
	parameters, mutable := "/lab/"+r.name()+".yaml", "/lab/mutable.yaml"
	require.NoError(t, g.Put(t.Context(), parameters, fmt.Appendf(nil, "replicas: %q\n", fmt.Sprint(r.replicas)), 0o600))
	require.NoError(t, g.Put(t.Context(), mutable, []byte("iopsLimit: \"1000/500\"\n"), 0o600))
	argv := []string{"/run/lab/csi-sanity",
		"-csi.endpoint", "unix://" + lab.NodeSocket, "-csi.controllerendpoint", "unix://" + lab.ControllerSocket,
		"-csi.mountdir", "/var/lib/kubelet/target-" + r.name(), "-csi.stagingdir", "/var/lib/kubelet/staging-" + r.name(),
		"-csi.testvolumesize", fmt.Sprint(sanitySize), "-csi.testvolumeexpandsize", fmt.Sprint(2 * sanitySize),
		"-csi.testvolumeaccesstype", r.access, "-csi.testvolumeparameters", parameters, "-csi.testvolumemutableparameters", mutable,
		"-csi.testnodevolumeattachlimit", "--ginkgo.no-color", "--ginkgo.succinct", "--ginkgo.flake-attempts", fmt.Sprint(sanityAttempts), "--ginkgo.json-report", "/lab/" + r.name() + ".json"}
	if !*long {
		argv = append(argv, "--ginkgo.focus", inShort, "--ginkgo.skip", notInShort)
	}
	ctx, cancel := context.WithTimeout(t.Context(), sanityTimeout)
	defer cancel()
	began := time.Now()
	report := filepath.Join(g.Shared(), r.name()+".json")
	for attempt := 1; ; attempt++ {
		job, err := g.Start(ctx, fmt.Sprintf("%s-%d", r.name(), attempt), nil, argv...)
		require.NoError(t, err)
		code, err := job.Wait(ctx)
		require.NoError(t, err, job.Log())
		if code == 0 {
			break
		}
		if attempt == sanityAttempts || !failedForNow(t, report) {
			require.Zero(t, code, job.Log())
		}
		t.Logf("again, as a host or the leader was away: %s", job.Log())
		for _, other := range w.lab.Guests() {
			w.awaitState(t, other.Name(), "reachable")
		}
	}
	passed, skipped, repeated := countSpecs(t, report)
	t.Logf("csi-sanity v5.6.0, %s, %d replicas: %d passed, skipped %v, in %s", r.access, r.replicas, passed, skipped, time.Since(began).Round(time.Second))
	for _, spec := range repeated {
		t.Logf("passed when it was repeated: %s", spec)
	}
	unexplained := slices.DeleteFunc(repeated, retriableAnswer.MatchString)
	require.LessOrEqual(t, len(unexplained), maxRepeated, "specs had to be repeated, and no election explains it")
	if *long {
		require.GreaterOrEqual(t, passed, sanityPasses, "the reference driver passes as many")
	}
	require.NotZero(t, passed)
	for why := range skipped {
		require.Contains(t, onlyNewer, why, "skipped for a reason that v1.13 does not explain")
	}
}

// retriableAnswer is what a failed attempt says of an answer after which a sidecar repeats the call.
var retriableAnswer = regexp.MustCompile(`code = (Unavailable|Aborted|DeadlineExceeded)|can be reached|no reachable host`)

// onlyNewer are the reasons to skip that only v1.13 brings: its capabilities are not in
// v1.12, which is served.
var onlyNewer = []string{
	"ControllerGetVolumeHealth not supported",
	"ControllerListVolumeHealth not supported",
	"NodeGetVolumeHealth not supported",
	"NodeGetStorageHealth not supported",
	"SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported",
}

// countSpecs reads a report: how many specs passed, why others were skipped, and which
// had to be repeated.
func countSpecs(t *testing.T, report string) (passed int, skipped map[string]int, repeated []string) {
	t.Helper()
	skipped = map[string]int{}
	for _, spec := range readSpecs(t, report) {
		switch {
		case spec.LeafNodeType != types.NodeTypeIt:
		case spec.State == types.SpecStatePassed:
			passed++
			if spec.NumAttempts > 1 {
				repeated = append(repeated, spec.FullText()+": "+attemptFailures(spec))
			}
		case spec.State == types.SpecStateSkipped && spec.Failure.Message != "": // else it was not asked for
			skipped[spec.Failure.Message]++
		}
	}
	return passed, skipped, repeated
}

func readSpecs(t *testing.T, report string) types.SpecReports {
	t.Helper()
	raw, err := os.ReadFile(report)
	require.NoError(t, err)
	var suites []ginkgo.Report
	require.NoError(t, json.Unmarshal(raw, &suites))
	return suites[0].SpecReports
}

// failedForNow tells whether all that failed had an answer after which a sidecar repeats the call.
func failedForNow(t *testing.T, report string) bool {
	t.Helper()
	return !slices.ContainsFunc(readSpecs(t, report), func(spec ginkgo.SpecReport) bool {
		return spec.Failed() && !retriableAnswer.MatchString(spec.Failure.Message)
	})
}

// attemptFailures is what the attempts of a spec failed of before the last one.
func attemptFailures(spec ginkgo.SpecReport) string {
	var all []string
	for _, failed := range spec.AdditionalFailures {
		all = append(all, failed.Failure.Message)
	}
	return strings.Join(all, "; ")
}

// listObjects is what there is, in the log and on the hosts: kept copies of outdated replicas may
// be there.
func (w *env) listObjects(ctx context.Context) (all []string, err error) {
	var answer struct {
		Volumes []struct {
			ID string `json:"id"`
		} `json:"volumes"`
	}
	if err := w.cluster.Ask(ctx, &answer, "volumes"); err != nil {
		return nil, err
	}
	for _, v := range answer.Volumes {
		all = append(all, "volume "+v.ID)
	}
	for _, g := range w.lab.Guests() {
		out, code, err := g.Exec(ctx, "lvs --noheadings -o lv_name vg | grep -oE 'h[fs]-.*'; ls /etc/drbd.d | grep -E 'h[fs]-.*res'; true")
		if err != nil || code != 0 {
			return nil, fmt.Errorf("list what %s holds: exit code %d: %s: %w", g.Name(), code, out, err)
		}
		for line := range strings.Lines(out) {
			all = append(all, g.Name()+" "+strings.TrimSpace(line))
		}
	}
	return all, nil
}

// awaitNoMoreThan waits until there is nothing more than there was: csi-sanity deletes what it
// made.
func (w *env) awaitNoMoreThan(t *testing.T, before []string) {
	t.Helper()
	eventually(t, timeout, "nothing more is left", func(ctx context.Context) error {
		now, err := w.listObjects(ctx)
		if err != nil {
			return err
		}
		now = slices.DeleteFunc(now, func(what string) bool { return slices.Contains(before, what) })
		if len(now) > 0 {
			return fmt.Errorf("there is %s", strings.Join(now, ", "))
		}
		return nil
	})
}
