package isolated

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/relay"
)

// level1 is the last commit of the repository whose build understands feature level 1 only.
const level1 = "b895048"

// TestS72_TwoBuildsRollOverBadLinks: the members of a cluster of the previous build become this one and go back, one after the other, while what
// each controller opens is late and reset. Volumes are made and used with every mix, and the states stay equal.
func TestS72_TwoBuildsRollOverBadLinks(t *testing.T) {
	if !*long {
		t.Skip("the long form only: it builds another build")
	}
	dir := t.TempDir()
	previous, err := harness.BuildCommit(t.Context(), level1)
	if errors.Is(err, harness.ErrNoHistory) {
		t.Skipf("skipped: %v", err)
	}
	require.NoError(t, err)
	current, err := builder.Path(t.Context())
	require.NoError(t, err)
	installed := filepath.Join(dir, "holdfast-installed")
	require.NoError(t, harness.Install(previous, installed))
	c := startCluster(t, Options{Binary: installed, PoolsOfOld: true})
	for i, m := range c.Controllers() {
		_, err := m.Spoil(t.Context(), relay.Weather{Latency: time.Millisecond, Jitter: 20 * time.Millisecond, Reset: 1}, uint64(i))
		require.NoError(t, err)
	}
	for round, build := range []string{current, previous, current} {
		for _, m := range c.Members() {
			require.NoError(t, m.Stop(t.Context()))
			require.NoError(t, harness.Install(build, installed))
			require.NoError(t, m.Start(t.Context()))
			require.NoError(t, c.AwaitServing(t.Context()))
			c.liveOn(t, fmt.Sprintf("life-%d-%s", round, m.ID))
		}
		c.requireWell(t)
	}
}

// liveOn has a volume made, used and deleted on each node.
func (c *Cluster) liveOn(t *testing.T, name string) {
	t.Helper()
	co := c.View().NewCO()
	co.Timeout = harness.Patience
	for _, n := range c.Nodes() {
		v, err := co.Create(t.Context(), harness.Spec{Name: name + n.ID, Size: 2 * harness.Mi, Node: n.ID})
		require.NoError(t, err)
		require.NoError(t, co.PublishStageBind(t.Context(), v, n.ID))
		require.NoError(t, co.UnbindUnstageUnpublish(t.Context(), v))
		require.NoError(t, co.Delete(t.Context(), v))
	}
}
