package isolated

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// TestS14_ARestoredBackupRemovesNothing: the controllers' disks are put back to what they were before a volume was made and used. The volume's
// host removes nothing of it, waits until the cluster is as far as it was, and then says that it has something of which the
// state knows nothing; what the state does know goes on.
func TestS14_ARestoredBackupRemovesNothing(t *testing.T) {
	c := startCluster(t, Options{Nodes: 1})
	co := c.View().NewCO()
	kept, err := co.Create(t.Context(), harness.Spec{Name: "kept", Size: harness.Mi, Node: "n1"})
	require.NoError(t, err)
	backup, err := c.Backup(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.AwaitServing(t.Context()))
	later, err := co.Create(t.Context(), harness.Spec{Name: "later", Size: harness.Mi, Node: "n1"})
	require.NoError(t, err)

	require.NoError(t, c.Restore(t.Context(), backup))
	listed, err := co.List(t.Context())
	require.NoError(t, err)
	require.Contains(t, listed, kept.ID)
	require.NotContains(t, listed, later.ID)
	c.goOnUntilHostsAreHeard(t)
	require.NoError(t, co.PublishStageBind(t.Context(), kept, "n1"))
	require.NoError(t, co.UnbindUnstageUnpublish(t.Context(), kept))
	require.FileExists(t, filepath.Join(c.Member("n1").PoolDir(), "volumes", later.ID+".img"))
	audit, err := c.View().Audit(t.Context())
	require.NoError(t, err)
	require.Len(t, audit.Orphans, 1, "%+v", audit)
	require.Equal(t, later.ID, audit.Orphans[0].ID)
	require.NoError(t, c.View().AwaitAgreement(t.Context()))
}

// goOnUntilHostsAreHeard writes entries until the log is as long as it was: before, a host that acted on more takes no orders.
func (c *Cluster) goOnUntilHostsAreHeard(t *testing.T) {
	t.Helper()
	co := c.View().NewCO()
	co.CallTimeout, co.Timeout = time.Second, 1 // its entries count, not its answers
	n := 0
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "all hosts to be heard", func() (bool, error) {
		n++
		_, _ = co.Create(t.Context(), harness.Spec{Name: fmt.Sprintf("more-%d", n), Size: harness.Mi})
		err := c.Member("n1").Ready(t.Context())
		return err == nil, err
	}))
}
