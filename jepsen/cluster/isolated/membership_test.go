package isolated

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// TestMembersComeAndGo: a controller that lost its disk is replaced, one more joins and one goes, the leader too, and what was
// acknowledged is there at each.
func TestMembersComeAndGo(t *testing.T) {
	c := startCluster(t, Options{})
	co := c.View().NewCO()
	v, err := co.Create(t.Context(), harness.Spec{Name: "before", Size: harness.Mi})
	require.NoError(t, err)
	require.NoError(t, c.ReplaceController(t.Context(), c.leader(t)))
	require.NoError(t, c.AwaitVoting(t.Context()))
	added, err := c.AddController(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.AwaitVoting(t.Context()))
	requireListedAt(t, c, added, v)
	require.NoError(t, c.RemoveController(t.Context(), c.leader(t)))
	require.Len(t, c.Controllers(), 3)
	_, err = co.Create(t.Context(), harness.Spec{Name: "after", Size: harness.Mi})
	require.NoError(t, err)
	c.requireWell(t)
}
