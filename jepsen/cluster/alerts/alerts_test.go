package alerts

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/prometheus"
)

// TestAlertsOfControllersAndHosts: members and hosts stop and come back, a member is paused, another's memory lies, a pool goes away,
// and something lies in one that the log does not know.
func TestAlertsOfControllersAndHosts(t *testing.T) {
	prometheus.Require(t)
	t.Parallel()
	w := startCluster(t, harness.Options{Controllers: 3, Nodes: 2, Flags: []string{"--controller-arg=--checkpoint-every=16"}}, func(*harness.Cluster) {})
	w.requireListedMetrics()
	w.loseAPool("n1")
	w.findAnOrphan("n1")
	w.Quiet("HoldfastNoLeader", "HoldfastMemberDown", "HoldfastNotReady", "HoldfastHostDown", "HoldfastSessionLost",
		"HoldfastDiskFull", "HoldfastDiverged", "HoldfastCertExpires", "HoldfastOperationFailed", "HoldfastReplicaLost", "HoldfastStuck")
	w.pauseAMember()
	w.flipABit()
	w.stopAHost("n2")
	w.stopMembers()
	w.requireListedMetrics()
}

// loseAPool takes the id of a pool away and gives it back.
func (w *watched) loseAPool(node string) {
	l, err := w.Layout()
	require.NoError(w.t, err)
	id := filepath.Join(l.PoolDir(node), ".holdfast-pool")
	w.Quiet("HoldfastPoolGone")
	require.NoError(w.t, os.Rename(id, id+".away"))
	w.Fires("HoldfastPoolGone")
	require.NoError(w.t, os.Rename(id+".away", id))
	w.Ends("HoldfastPoolGone")
}

// findAnOrphan puts an image into a pool that the log does not know. Only an audit sees it.
func (w *watched) findAnOrphan(node string) {
	l, err := w.Layout()
	require.NoError(w.t, err)
	orphan := filepath.Join(l.PoolDir(node), "volumes", "hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c10.img")
	w.Quiet("HoldfastAuditFindings")
	require.NoError(w.t, os.WriteFile(orphan, make([]byte, harness.Mi), 0o600))
	require.NoError(w.t, harness.Poll(w.t.Context(), harness.Patience, "an audit to find it", func() (bool, error) {
		audit, err := w.Audit(w.t.Context())
		return len(audit.Orphans) == 1, err
	}))
	w.Fires("HoldfastAuditFindings")
	require.NoError(w.t, os.Remove(orphan))
	require.NoError(w.t, w.AwaitCleanAudit(w.t.Context()))
	w.Ends("HoldfastAuditFindings")
}

func (w *watched) stopAHost(node string) {
	w.Quiet("HoldfastHostDown")
	require.NoError(w.t, w.Kill(w.t.Context(), node))
	w.Fires("HoldfastHostDown")
	require.NoError(w.t, w.StartChild(w.t.Context(), node))
	w.Ends("HoldfastHostDown")
}

// stopMembers stops the leader, then another member, so that no majority is left; then all of them.
func (w *watched) stopMembers() {
	w.Quiet("HoldfastMemberDown", "HoldfastNoLeader", "HoldfastNotReady", "HoldfastSessionLost")
	leader, err := w.Leader(w.t.Context())
	require.NoError(w.t, err)
	require.NoError(w.t, w.Kill(w.t.Context(), leader))
	w.Fires("HoldfastMemberDown")
	w.Await("the others to elect a leader", `sum(holdfast_raft_state{state="leader"}) == 1`)
	l, err := w.Layout()
	require.NoError(w.t, err)
	killed := []string{leader}
	for _, id := range l.ControllerIDs() {
		if id != leader && len(killed) < 2 {
			require.NoError(w.t, w.Kill(w.t.Context(), id))
			killed = append(killed, id)
		}
	}
	w.Fires("HoldfastNoLeader")
	w.Fires("HoldfastNotReady")
	w.Fires("HoldfastSessionLost")
	for _, id := range killed {
		require.NoError(w.t, w.StartChild(w.t.Context(), id))
	}
	for _, alert := range []string{"HoldfastNoLeader", "HoldfastMemberDown", "HoldfastNotReady", "HoldfastSessionLost", "HoldfastHostDown"} {
		w.Ends(alert)
	}
}

var listedMetric = regexp.MustCompile("(?m)^\\| `([a-z_0-9]+)` \\| ([a-z]+) \\|")

// requireListedMetrics requires that everything that was scraped is in METRICS.md, with its type.
func (w *watched) requireListedMetrics() {
	w.t.Helper()
	page, err := os.ReadFile("../../../deploy/METRICS.md")
	require.NoError(w.t, err)
	listed := map[string]string{}
	for _, m := range listedMetric.FindAllStringSubmatch(string(page), -1) {
		listed[m[1]] = m[2]
	}
	types, err := w.Types(w.t.Context())
	require.NoError(w.t, err)
	require.Contains(w.t, types, "holdfast_raft_state")
	require.Contains(w.t, types, "holdfast_session_connected")
	for name, kind := range types {
		if strings.HasPrefix(name, "holdfast_") {
			require.Equal(w.t, kind, listed[name], "the type of %s in METRICS.md", name)
		}
	}
}
