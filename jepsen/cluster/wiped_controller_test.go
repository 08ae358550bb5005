package cluster

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// wipedCluster is a cluster whose controllers lose their disks.
type wipedCluster struct {
	*harness.Cluster
	t *testing.T
}

func (w *wipedCluster) kill(id string) { require.NoError(w.t, w.Kill(w.t.Context(), id)) }

func (w *wipedCluster) startChild(id string) {
	w.t.Helper()
	res := w.Run(w.t.Context(), "dev", "start", "--dir", w.Dir, id)
	require.Contains(w.t, []int{0, 3}, res.Code, res.Stderr)
}

// wipe kills a controller, deletes its data and starts it again.
func (w *wipedCluster) wipe(id string) {
	w.t.Helper()
	w.kill(id)
	l, err := w.Layout()
	require.NoError(w.t, err)
	require.NoError(w.t, os.RemoveAll(l.DataDir(id)))
	w.startChild(id)
}

// awaitRefusedConnections waits until a controller has refused that many connections whose target is another member.
func (w *wipedCluster) awaitRefusedConnections(id string, times int) {
	w.t.Helper()
	counted := regexp.MustCompile(`(?m)^holdfast_raft_misdirected_connections_total (\d+)$`)
	w.awaitHTTP(id, "/metrics", fmt.Sprintf("%d connections turned away", times), func(text string) bool {
		found := counted.FindStringSubmatch(text)
		if found == nil {
			return false
		}
		n, err := strconv.Atoi(found[1])
		return err == nil && n >= times
	})
}

// requireNotServing asserts that a controller is not ready and answers no CSI call.
func (w *wipedCluster) requireNotServing(id string) {
	w.t.Helper()
	identity, err := w.Identity(id)
	require.NoError(w.t, err)
	var probe *csi.ProbeResponse
	require.NoError(w.t, harness.Poll(w.t.Context(), harness.Patience, id+" to answer", func() (bool, error) {
		probe, err = identity.Probe(timeoutContext(w.t, harness.Patience), &csi.ProbeRequest{})
		return err == nil, err
	}))
	require.False(w.t, probe.GetReady().GetValue(), "%s says that it is ready", id)
	client, err := w.Controller(id)
	require.NoError(w.t, err)
	_, err = client.ListVolumes(timeoutContext(w.t, harness.Patience), &csi.ListVolumesRequest{})
	require.Equal(w.t, codes.Unavailable, status.Code(err), "%s lists volumes: %v", id, err)
	_, err = client.CreateVolume(timeoutContext(w.t, harness.Patience), harness.Spec{Name: "of-a-stranger"}.CreateRequest())
	require.Equal(w.t, codes.Unavailable, status.Code(err), "%s makes volumes: %v", id, err)
}

// awaitReadiness waits until a controller's readiness contains a text.
func (w *wipedCluster) awaitReadiness(id, text string) {
	w.t.Helper()
	w.awaitHTTP(id, "/readyz", text, func(said string) bool { return strings.Contains(said, text) })
}

// awaitHTTP waits until what a controller answers over HTTP is as wanted.
func (w *wipedCluster) awaitHTTP(id, path, wanted string, is func(text string) bool) {
	w.t.Helper()
	l, err := w.Layout()
	require.NoError(w.t, err)
	at := slices.IndexFunc(l.Controllers, func(c harness.Controller) bool { return c.ID == id })
	require.NoError(w.t, harness.Poll(w.t.Context(), harness.Patience, id+" to say: "+wanted, func() (bool, error) {
		resp, err := http.Get("http://" + l.Controllers[at].Metrics + path)
		if err != nil {
			return false, nil // it is still starting
		}
		defer func() { _ = resp.Body.Close() }()
		said, err := io.ReadAll(resp.Body)
		if err != nil || !is(string(said)) {
			return false, fmt.Errorf("%s says %.500s", path, said)
		}
		return true, nil
	}))
}

func (w *wipedCluster) memberID(id string) string {
	w.t.Helper()
	s, err := w.Status(w.t.Context())
	require.NoError(w.t, err)
	for _, m := range s.Members {
		if m.ID == id {
			return m.MemberID
		}
	}
	require.Fail(w.t, "no member "+id)
	return ""
}

func (w *wipedCluster) noLeader() {
	w.t.Helper()
	s, err := w.Status(w.t.Context())
	require.NoError(w.t, err)
	require.Empty(w.t, s.Leader)
}

// roles are the controllers of a cluster of three by what they do now.
func (w *wipedCluster) roles() (leader string, followers []string) {
	w.t.Helper()
	leader, err := w.Leader(w.t.Context())
	require.NoError(w.t, err)
	ids := []string{"c1", "c2", "c3"}
	return leader, slices.DeleteFunc(ids, func(id string) bool { return id == leader })
}

// TestWipedControllers: a controller that lost its disk is not its former member.
func TestWipedControllers(t *testing.T) {
	for _, store := range []string{"wal", "boltdb"} {
		t.Run(store, func(t *testing.T) {
			w := &wipedCluster{startCluster(t, harness.Options{Supervise: false, Flags: []string{"--log-store=" + store}}), t}
			t.Run("S68 it elects nobody, so no acknowledged volume is lost", func(t *testing.T) { w.withT(t).testNoElection() })
			t.Run("S68 it serves and acknowledges nothing", func(t *testing.T) { w.withT(t).testNoAcknowledgement() })
			t.Run("S69 the founder founds nothing again", func(t *testing.T) { w.withT(t).testNoBootstrap() })
		})
	}
}

func (w *wipedCluster) withT(t *testing.T) *wipedCluster { return &wipedCluster{w.Cluster, t} }

func (w *wipedCluster) testNoElection() {
	leader, followers := w.roles()
	behind, lost := followers[0], followers[1]
	w.kill(behind)
	co := w.NewCO()
	co.Controllers = []string{leader}
	acknowledged, err := co.Create(w.t.Context(), harness.Spec{Name: "acknowledged"})
	require.NoError(w.t, err)
	old := w.memberID(lost)
	w.kill(leader)
	w.wipe(lost)
	w.startChild(behind)
	w.awaitRefusedConnections(lost, 5)
	w.noLeader()
	w.requireNotServing(lost)
	w.startChild(leader)
	_, err = w.Leader(w.t.Context())
	require.NoError(w.t, err)
	for _, id := range []string{leader, behind} {
		co.Controllers = []string{id}
		listed, err := co.List(w.t.Context())
		require.NoError(w.t, err)
		require.Contains(w.t, listed, acknowledged.ID)
	}
	w.replace(lost, old)
}

func (w *wipedCluster) testNoAcknowledgement() {
	leader, followers := w.roles()
	lost, other := followers[0], followers[1]
	old := w.memberID(lost)
	w.wipe(lost)
	w.awaitRefusedConnections(lost, 3)
	w.kill(other)
	w.requireNotServing(lost)
	client, err := w.Controller(leader)
	require.NoError(w.t, err)
	_, err = client.CreateVolume(timeoutContext(w.t, harness.Patience), harness.Spec{Name: "by-one-alone"}.CreateRequest())
	require.Equal(w.t, codes.Unavailable, status.Code(err), "one member of three acknowledged it: %v", err)
	w.startChild(other)
	w.replace(lost, old)
}

// replace replaces a member by the controller that runs at its address. The command refuses while too few of the other
// members answer, as when one was just started; it is then repeated, as its operator would.
func (w *wipedCluster) replace(id, old string) {
	w.t.Helper()
	w.awaitReadiness(id, "holdfast members replace "+old)
	require.NoError(w.t, harness.Poll(w.t.Context(), harness.Patience, "member "+old+" to be replaced", func() (bool, error) {
		res := w.Run(w.t.Context(), "members", "replace", old, "--dir", w.Dir, "--yes", "--wait")
		if res.Code == 0 {
			return true, nil
		}
		err := fmt.Errorf("exit code %d: %s\n%s", res.Code, res.Stderr, res.Stdout)
		if !strings.Contains(res.Stdout, "they would be no quorum") {
			err = harness.Permanent(err)
		}
		return false, err
	}))
	require.NoError(w.t, harness.Poll(w.t.Context(), harness.Patience, id+" to be another member", func() (bool, error) {
		s, err := w.Status(w.t.Context()) // any controller answers, and may apply the change a moment later
		at := slices.IndexFunc(s.Members, func(m harness.Member) bool { return m.ID == id })
		return at >= 0 && s.Members[at].MemberID != old, err
	}))
	require.NoError(w.t, w.AwaitAgreement(w.t.Context()))
}

// testNoBootstrap starts the first controller as its unit file always does, with --bootstrap, after its disk is lost
// and while the others are down.
func (w *wipedCluster) testNoBootstrap() {
	argv := w.commandLine("c1")
	old := w.memberID("c1")
	for _, id := range []string{"c1", "c2", "c3"} {
		w.kill(id)
	}
	l, err := w.Layout()
	require.NoError(w.t, err)
	require.NoError(w.t, os.RemoveAll(l.DataDir("c1")))
	marker := l.DataDir("c1") + ".founded"
	w.t.Run("without addresses its marker refuses", func(t *testing.T) {
		res := w.Run(t.Context(), slices.Concat(withoutJoin(argv), []string{"--bootstrap"})...)
		require.Equal(t, 1, res.Code, res.Stderr)
		require.Contains(t, res.Stderr, "--join")
		require.Contains(t, res.Stderr, marker)
	})
	require.NoError(w.t, os.Remove(marker))
	require.NoError(w.t, os.RemoveAll(l.DataDir("c1")))
	stop := w.startUnsupervised(slices.Concat(argv, []string{"--bootstrap"}))
	w.awaitReadiness("c1", "a new cluster is made when all other controllers said that they know none")
	w.requireNotServing("c1")
	w.startChild("c2")
	w.startChild("c3")
	w.awaitReadiness("c1", "holdfast members replace "+old)
	stop()
	w.startChild("c1")
	w.replace("c1", old)
}

// commandLine is how a controller was started, without the program.
func (w *wipedCluster) commandLine(id string) []string {
	w.t.Helper()
	l, err := w.Layout()
	require.NoError(w.t, err)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", l.PID(id)))
	require.NoError(w.t, err)
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")[1:]
}

func withoutJoin(argv []string) (rest []string) {
	for i := 0; i < len(argv); i++ {
		if argv[i] == "--join" {
			i++
			continue
		}
		rest = append(rest, argv[i])
	}
	return rest
}

// startUnsupervised starts a controller beside the supervisor, until stop.
func (w *wipedCluster) startUnsupervised(argv []string) (stop func()) {
	w.t.Helper()
	cmd := exec.Command(testBinary(w.t), argv...)
	log, err := os.Create(filepath.Join(w.t.TempDir(), "controller.log"))
	require.NoError(w.t, err)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(w.t, cmd.Start())
	stop = func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		_ = log.Close()
	}
	w.t.Cleanup(stop)
	return stop
}
