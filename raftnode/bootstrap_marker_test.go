package raftnode

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheMarkerNamesTheClusterThatWasFounded: also one that an older build wrote, and never in the marker of another member.
func TestTheMarkerNamesTheClusterThatWasFounded(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	n := c.add("c1", nil)
	c.waitReady(1)
	named := func() string {
		cluster, err := FoundedCluster(n.cfg.Dir, "")
		require.NoError(t, err)
		return cluster
	}
	require.Equal(t, n.machine.cluster().ID, named())
	for member, want := range map[string]string{n.id: n.machine.cluster().ID, "another": ""} {
		text, err := json.Marshal(bootstrapMarker{Member: member})
		require.NoError(t, err)
		n.crash(t)
		require.NoError(t, os.WriteFile(n.cfg.Dir+".founded", text, 0o600))
		n.cfg.Bootstrap = false
		require.NoError(t, c.start(n))
		c.waitReady(1)
		require.Equal(t, want, named())
	}
}
