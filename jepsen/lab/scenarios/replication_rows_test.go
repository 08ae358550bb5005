package scenarios

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/replicate"
)

// replicationRow is a row of jepsen/conformance/rows.csv that needs kernels which replicate to each other.
type replicationRow struct {
	id   string
	test func(x *rowLab, t *testing.T)
}

// replicationRows are all rows that lab.csv has of this test. Each leaves the volume that they share primary at
// site A, up to date at both and published nowhere.
var replicationRows = slices.Concat(sourceRows, enableRows, infoRows, demoteRows, promoteRows, pendingRows, forcedRows, disableRows, lastRows)

// TestReplicationRows: two sites with a controller and a node each, and a witness, are asked through each site's endpoint
// as its orchestrator would.
func TestReplicationRows(t *testing.T) {
	requireRowsOfSheet(t)
	x := newRowLab(t)
	for _, row := range replicationRows {
		t.Run(row.id, func(t *testing.T) { row.test(x, t) })
	}
	x.requireSplitBrainsSolved(t)
}

// requireSplitBrainsSolved: where both sites wrote, because one was promoted by force, the kernels were told whose writes are
// discarded.
func (x *rowLab) requireSplitBrainsSolved(t *testing.T) {
	t.Helper()
	for _, g := range x.lab.Guests() {
		require.False(t, strings.Contains(g.Console(), "Split-Brain detected but unresolved"), "%s: a split brain is not solved", g.Name())
	}
}

// requireRowsOfSheet requires that the rows are those that the conformance page has of this test.
func requireRowsOfSheet(t *testing.T) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "conformance", "lab.csv"))
	require.NoError(t, err)
	defer func() { _ = f.Close() }() // it was read
	records, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	var want, have []string
	for _, r := range records {
		if r[1] == t.Name() {
			want = append(want, r[0])
		}
	}
	for _, row := range replicationRows {
		have = append(have, row.id)
	}
	require.ElementsMatch(t, want, have)
}

// rowLab is the lab that the rows share. Stories are told once, by the first row that needs one.
type rowLab struct {
	*env
	a, b     *rowSite
	shared   *volume
	named    *volume // replicated under a replication id
	said     []*replication.GetVolumeReplicationInfoResponse
	pending  story[map[string]error]
	enabling story[enabling]
	forced   story[forcedFailover]
}

// story is what was seen once, for many rows.
type story[T any] struct {
	begun bool
	seen  *T
}

// tell has the story told by the first caller. It fails for the others where it failed for the first.
func (s *story[T]) tell(t *testing.T, by func(t *testing.T) *T) *T {
	t.Helper()
	if !s.begun {
		s.begun = true
		s.seen = by(t)
	}
	require.NotNil(t, s.seen, "what this row is about was not seen: it failed in another row")
	return s.seen
}

func newRowLab(t *testing.T) *rowLab {
	t.Helper()
	x := &rowLab{env: newEnvOf(t, twoSites)}
	x.a, x.b = x.rowSite(t, 1, "B"), x.rowSite(t, 2, "A")
	return x
}

// pair is the volume that the rows share, published nowhere, replicated with site A as its primary and up to date at both
// sites. It is so again when the row is over.
func (x *rowLab) pair(t *testing.T) *volume {
	t.Helper()
	if x.shared == nil {
		x.shared = x.newPair(t, "shared", replicate.Request{})
	}
	v := x.shared
	t.Cleanup(func() { x.settle(t, v) })
	return v
}

// newPair makes a volume with one replica at each site that is replicated, and is up to date at both.
func (x *rowLab) newPair(t *testing.T, name string, r replicate.Request) *volume {
	t.Helper()
	x.count++
	v := x.a.createOverSites(t, fmt.Sprintf("%s-%d", name, x.count), true)
	r.Volume = v.id
	x.a.ok(t, replicate.Enable, r)
	x.awaitInSync(t, v)
	return v
}

// namedPair is a volume that is replicated under the replication id dr-1.
func (x *rowLab) namedPair(t *testing.T) *volume {
	t.Helper()
	if x.named == nil {
		x.named = x.newPair(t, "named", replicate.Request{ID: "dr-1"})
	}
	return x.named
}

// settle makes A primary again, and both sites up to date, whatever a row left.
func (x *rowLab) settle(t *testing.T, v *volume) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	require.NoError(t, x.restore(ctx))
	for s, node := range map[*rowSite]string{x.a: "n1", x.b: "n2"} {
		require.NoError(t, s.unstage(ctx, v, node))
		require.NoError(t, s.unpublish(ctx, v, node))
	}
	of := replicate.Request{Volume: v.id, Force: true}
	if !x.a.isPrimary(ctx, v) {
		x.b.okOf(ctx, t, replicate.Demote, of)
		x.a.okOf(ctx, t, replicate.Demote, of)
		x.awaitReady(ctx, t, x.a, of)
		x.a.okOf(ctx, t, replicate.Promote, replicate.Request{Volume: v.id})
	}
	x.b.okOf(ctx, t, replicate.Demote, of)
	x.awaitReady(ctx, t, x.b, of)
}

// awaitReady resynchronises through a site until it says that all is ready.
func (x *rowLab) awaitReady(ctx context.Context, t *testing.T, s *rowSite, r replicate.Request) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, resyncTimeout)
	defer cancel()
	require.NoError(t, pollUntil(ctx, "site "+s.name+" is ready", func(ctx context.Context) error {
		answer, err := s.call(ctx, replicate.Resync, r)
		if err == nil && !answer.Ready {
			err = fmt.Errorf("it is not")
		}
		return err
	}))
}

// publication is the error of a publication to a site's node, once: it is no orchestrator's, that repeats it.
func (s *rowSite) publication(t *testing.T, v *volume, node string) error {
	t.Helper()
	return s.once(t, func(ctx context.Context) error {
		_, err := s.controllers[0].ControllerPublishVolume(ctx, s.publishRequest(v, node))
		return err
	})
}

// use publishes and stages a volume at a site.
func (s *rowSite) use(t *testing.T, v *volume, node string) {
	t.Helper()
	require.NoError(t, s.publish(t.Context(), v, node))
	require.NoError(t, s.stage(t.Context(), v, node))
}

// endUse ends that.
func (s *rowSite) endUse(t *testing.T, v *volume, node string) {
	t.Helper()
	require.NoError(t, s.unstage(t.Context(), v, node))
	require.NoError(t, s.unpublish(t.Context(), v, node))
}

// replicas are the hosts of a volume's replicas, as the log has them.
func (x *rowLab) replicas(t *testing.T, v *volume) (nodes []string) {
	t.Helper()
	s, err := x.logState(t.Context(), v)
	require.NoError(t, err)
	for _, r := range s.Replicas {
		nodes = append(nodes, r.Node)
	}
	slices.Sort(nodes)
	return nodes
}

// history are the commands about a volume, as the journal has them.
func (x *rowLab) history(t *testing.T, v *volume) string {
	t.Helper()
	return strings.TrimSpace(x.cluster.MustAdmin(t, "history", v.id))
}

// deleteVolume deletes it through a site, where its replication ended.
func (s *rowSite) deleteVolume(t *testing.T, v *volume) {
	t.Helper()
	require.NoError(t, retryUntil(t.Context(), "delete "+v.name, func(ctx context.Context) error {
		_, err := s.controllers[0].DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v.id})
		return err
	}))
}
