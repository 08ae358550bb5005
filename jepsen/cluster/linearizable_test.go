package cluster

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/check"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/model"
	"github.com/holdfast-storage/holdfast/jepsen/nemesis"
	"github.com/holdfast-storage/holdfast/jepsen/traffic"
)

// TestRegistryIsLinearizableWhileLeadersDie judges a live history with porcupine:
// S161, S162, S164, S165, S139 and S166.
func TestRegistryIsLinearizableWhileLeadersDie(t *testing.T) {
	c := startCluster(t, harness.Options{Supervise: true})
	mix, asked := trafficMix(t, c), new(atomic.Int64)
	controller := mix.Controller
	mix.Controller = func() (csi.ControllerClient, error) { asked.Add(1); return controller() }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	harm := nemesis.Start(ctx,
		nemesis.Fault{Name: "leader killed", Every: 3 * time.Second, Inject: killLeader(c)},
		nemesis.Fault{Name: "leader paused", Every: 4 * time.Second, Inject: pauseLeader(c)})
	go func() {
		defer cancel()
		<-time.After(shortOrLong(15*time.Second, 3*time.Minute))
		awaitFaults(ctx, harm, map[string]int{"leader killed": 3, "leader paused": 1})
		_ = harness.Poll(ctx, harness.Patience, "clients to make calls", func() (bool, error) { return asked.Load() > 500, nil })
	}()
	res := traffic.Run(ctx, mix)
	done, err := harm.Stop()
	require.NoError(t, err)
	require.Greater(t, done["leader killed"], 2)
	require.Positive(t, done["leader paused"])
	require.Empty(t, res.Unexpected, "codes that no CO expects")

	count := res.History.Count()
	t.Logf("harm: %v; answers: %v", done, count)
	require.Greater(t, count[model.OK], 100, "hardly a call was answered")
	begin := time.Now()
	require.NoError(t, check.Linearizable(res.History.Calls(), harness.Patience, artifacts(t)))
	t.Logf("judged in %s", time.Since(begin).Round(time.Millisecond))
	removeAll(t, c)
}

func trafficMix(t *testing.T, c *harness.Cluster) traffic.Profile {
	l, err := c.Layout()
	require.NoError(t, err)
	var turn atomic.Uint64
	return traffic.Profile{
		Clients: 6, Names: 6, Nodes: []string{"n1"}, CallsPerName: 24, Timeout: 3 * time.Second, Seed: uint64(time.Now().UnixNano()),
		Controller: func() (csi.ControllerClient, error) {
			return c.Controller(l.Controllers[turn.Add(1)%uint64(len(l.Controllers))].ID)
		},
		Request: func(name string, size int64) *csi.CreateVolumeRequest {
			return harness.Spec{Name: name, Size: size}.CreateRequest()
		},
		Capability: (&harness.Volume{FSType: "ext4"}).Capability(),
	}
}

// removeAll unpublishes and deletes every volume there is.
func removeAll(t *testing.T, c *harness.Cluster) {
	t.Helper()
	co := c.NewCO()
	listed, err := co.List(t.Context())
	require.NoError(t, err)
	volumes := map[string]*harness.Volume{}
	for id := range listed {
		v := &harness.Volume{ID: id} // with no node id: from all nodes
		require.NoError(t, co.Unpublish(t.Context(), v))
		volumes[id] = v
	}
	deleteAll(t, c, co, volumes)
}
