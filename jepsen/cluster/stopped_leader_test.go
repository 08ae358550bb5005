package cluster

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// timeoutContext is a context with a deadline that ends with the test.
func timeoutContext(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// others are all controllers but one.
func others(t *testing.T, c *harness.Cluster, but string) []string {
	l, err := c.Layout()
	require.NoError(t, err)
	var ids []string
	for _, id := range l.ControllerIDs() {
		if id != but {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestStoppedLeaderServesNothingStale: reads are linearizable (S139). They are sent to the leader while it is
// stopped, so that they wait in its socket, and right after it continues.
func TestStoppedLeaderServesNothingStale(t *testing.T) {
	c := startCluster(t, harness.Options{Supervise: true})
	gone, err := c.NewCO().Create(t.Context(), harness.Spec{Name: "deleted-meanwhile"})
	require.NoError(t, err)
	for round := range shortOrLong(1, 5) {
		gone = pauseLeaderDuring(t, c, gone, round)
	}
}

// pauseLeaderDuring stops the leader, deletes one volume and creates another meanwhile, and returns the new one.
func pauseLeaderDuring(t *testing.T, c *harness.Cluster, gone *harness.Volume, round int) *harness.Volume {
	former, err := c.Leader(t.Context())
	require.NoError(t, err)
	client, err := c.Controller(former)
	require.NoError(t, err)
	require.NoError(t, repeatUntilDefinite(t, "the list", func() error { // connects
		_, err := harness.ListAt(t.Context(), client)
		return err
	}))

	_, err = c.Signal(former, syscall.SIGSTOP)
	require.NoError(t, err)
	begin := time.Now()
	t.Cleanup(func() { _, _ = c.Signal(former, syscall.SIGCONT) })
	co := c.NewCO()
	co.Controllers = others(t, c, former)
	require.NoError(t, co.Delete(t.Context(), gone))
	made, err := co.Create(t.Context(), harness.Spec{Name: "made-meanwhile-" + string(rune('a'+round))})
	require.NoError(t, err)
	t.Logf("the others deleted and created within %s", time.Since(begin).Round(time.Millisecond))

	answers := make(chan error, 40)
	ask := func() {
		for range cap(answers) / 2 {
			go func() { answers <- checkFresh(t.Context(), client, gone.ID, made.ID) }()
		}
	}
	ask()
	<-time.After(time.Until(begin.Add(10 * time.Second))) // the length of the stop is the test
	_, err = c.Signal(former, syscall.SIGCONT)
	require.NoError(t, err)
	ask()
	for range cap(answers) {
		require.NoError(t, <-answers)
	}
	require.NoError(t, c.AwaitAgreement(t.Context()))
	return made
}

// checkFresh returns an error when a read misses what was acknowledged before it was sent. UNAVAILABLE is
// accepted.
func checkFresh(ctx context.Context, c csi.ControllerClient, gone, made string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	listed, err := harness.ListAt(ctx, c)
	if err == nil {
		err = staleList(listed, gone, made)
	}
	if err == nil {
		err = staleGet(ctx, c, gone, made)
	}
	if harness.Retriable(err) {
		return nil
	}
	return err
}

func staleList(listed map[string]harness.ListedVolume, gone, made string) error {
	if _, there := listed[gone]; there {
		return status.Errorf(codes.DataLoss, "a stale list: %s was deleted", gone)
	}
	if _, there := listed[made]; !there {
		return status.Errorf(codes.DataLoss, "a stale list: %s was created", made)
	}
	return nil
}

func staleGet(ctx context.Context, c csi.ControllerClient, gone, made string) error {
	_, err := c.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: gone})
	if err == nil {
		return status.Errorf(codes.DataLoss, "a stale read: %s was deleted", gone)
	}
	if status.Code(err) != codes.NotFound {
		return err
	}
	_, err = c.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: made})
	return err
}
