package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// TestS28_AFullRaftDiskRefusesMutationsAndRecovers fills the disk of a member.
func TestS28_AFullRaftDiskRefusesMutationsAndRecovers(t *testing.T) {
	c := startCluster(t, harness.Options{Supervise: true})
	co := c.NewCO()
	volumes := createMany(t, co, "before", 10, 4)
	disks := moveToSmallDisks(t, c)

	leader, err := c.Leader(t.Context())
	require.NoError(t, err)
	require.NoError(t, disks[leader].Fill(4*harness.Mi))
	merge(volumes, createMany(t, co, "one-full", 5, 1)) // two disks have free space

	for _, d := range disks {
		require.NoError(t, d.Fill(4*harness.Mi))
	}
	tried := awaitRefusal(t, c, "nearly-full")
	listed, err := co.List(t.Context())
	require.NoError(t, err, "reads need no disk")
	require.GreaterOrEqual(t, len(listed), len(volumes))
	for _, d := range disks {
		require.NoError(t, d.Fill(0))
	}
	tried = append(tried, awaitRefusal(t, c, "quite-full")...)
	restartAll(t, c)
	tried = append(tried, awaitRefusal(t, c, "full-at-start")...)

	for _, d := range disks {
		require.NoError(t, d.Free())
	}
	merge(volumes, createMany(t, co, "after", 5, 4))
	for _, name := range tried { // a refused attempt may have been committed; a repeated call has one answer
		volumes[name], err = co.Create(t.Context(), harness.Spec{Name: name})
		require.NoError(t, err)
	}
	requireExactVolumes(t, c, volumes)
	deleteAll(t, c, co, volumes)
}

func merge(to, more map[string]*harness.Volume) {
	for name, v := range more {
		to[name] = v
	}
}

// moveToSmallDisks stops the cluster, moves each controller to a small disk, and starts the cluster again.
func moveToSmallDisks(t *testing.T, c *harness.Cluster) map[string]*harness.Disk {
	t.Helper()
	l, err := c.Layout()
	require.NoError(t, err)
	require.NoError(t, c.Stop(t.Context()))
	disks := map[string]*harness.Disk{}
	for _, id := range l.ControllerIDs() {
		disk, err := c.PutOnDisk(t.Context(), id, 640*harness.Mi)
		require.NoError(t, err)
		disks[id] = disk
	}
	t.Cleanup(func() {
		ctx := context.Background()
		require.NoError(t, c.Stop(ctx))
		for _, d := range disks {
			require.NoError(t, d.Remove(ctx))
		}
	})
	require.NoError(t, c.Resume(t.Context()))
	return disks
}

// restartAll kills all controllers; the restart may fail while the disk is full.
func restartAll(t *testing.T, c *harness.Cluster) {
	for _, id := range others(t, c, "") {
		require.NoError(t, kill(c, id))
	}
}

// awaitRefusal waits until every controller answers UNAVAILABLE to a mutation, and
// asserts that from then on none is accepted. It answers the names it tried.
func awaitRefusal(t *testing.T, c *harness.Cluster, prefix string) []string {
	t.Helper()
	ids := others(t, c, "")
	var tried []string
	try := func(id, name string) codes.Code {
		tried = append(tried, name)
		return tryCreate(t, c, id, name)
	}
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "mutations to be refused", func() (bool, error) {
		for _, id := range ids {
			if got := try(id, fmt.Sprintf("%s-poll-%s", prefix, id)); got != codes.Unavailable {
				return false, status.Errorf(got, "%s did not refuse", id)
			}
		}
		return true, nil
	}))
	for _, id := range ids {
		require.Equal(t, codes.Unavailable, try(id, fmt.Sprintf("%s-%s", prefix, id)))
	}
	return tried
}

// tryCreate answers how an attempt ends, and makes another while a busy machine has no answer in time.
func tryCreate(t *testing.T, c *harness.Cluster, id, name string) codes.Code {
	client, err := c.Controller(id)
	require.NoError(t, err)
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, id+" to answer", func() (bool, error) {
		_, err = client.CreateVolume(timeoutContext(t, 5*time.Second), harness.Spec{Name: name}.CreateRequest())
		return status.Code(err) != codes.DeadlineExceeded, err
	}))
	return status.Code(err)
}
