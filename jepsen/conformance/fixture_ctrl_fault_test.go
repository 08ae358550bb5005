package conformance

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// whileStopped runs a function while processes are stopped.
func (k *fixture) whileStopped(ids []string, during func()) {
	k.t.Helper()
	resume := func() {
		for _, id := range ids {
			_, _ = k.env.Cluster.Signal(id, syscall.SIGCONT)
		}
	}
	defer resume()
	for _, id := range ids {
		_, err := k.env.Cluster.Signal(id, syscall.SIGSTOP)
		require.NoError(k.t, err)
	}
	during()
}

// callBriefly bounds one call that is not expected to be carried out.
func (k *fixture) callBriefly(call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(k.ctx, 1500*time.Millisecond)
	defer cancel()
	return call(ctx)
}

// requireAborted asserts that a call that cannot be completed is ABORTED before its deadline. On a busy machine the
// answer may come too late for one attempt.
func (k *fixture) requireAborted(call func(ctx context.Context) error) {
	k.t.Helper()
	var err error
	require.NoError(k.t, harness.Poll(k.ctx, timeout, "an answer before the deadline", func() (bool, error) {
		err = k.callBriefly(call)
		return status.Code(err) != codes.DeadlineExceeded, err
	}))
	requireRefused(k.t, err, codes.Aborted)
}

// awaitAllControllers waits until all controllers answer again.
func (k *fixture) awaitAllControllers() {
	k.t.Helper()
	err := harness.Poll(k.ctx, timeout, "all controllers to serve", func() (bool, error) {
		for _, id := range []string{"c1", "c2", "c3"} {
			c, err := k.env.Cluster.Controller(id)
			if err == nil {
				_, err = c.ListVolumes(k.ctx, &csi.ListVolumesRequest{MaxEntries: 1})
			}
			if err != nil {
				return false, err
			}
		}
		return true, nil
	})
	require.NoError(k.t, err)
}

// withoutQuorum makes a row of a call that fails without a majority, never with OK, and that succeeds afterwards.
func withoutQuorum(prepare func(k *fixture) func(ctx context.Context) error) rowTest {
	return rowOf(func(k *fixture) {
		call := prepare(k)
		k.whileStopped([]string{"c2", "c3"}, func() {
			k.awaitLeaseLoss()
			err := k.callBriefly(call)
			require.Error(k.t, err)
			require.Contains(k.t, []codes.Code{codes.Aborted, codes.Unavailable, codes.DeadlineExceeded}, status.Code(err))
		})
		k.awaitAllControllers()
		require.NoError(k.t, retried(k.ctx, call))
	})
}

// awaitLeaseLoss waits until c1 knows that it has no majority: a leader may answer until its lease ends.
func (k *fixture) awaitLeaseLoss() {
	k.t.Helper()
	err := harness.Poll(k.ctx, timeout, "c1 to answer no more", func() (bool, error) {
		return k.callBriefly(func(ctx context.Context) error {
			_, err := k.controller.ListVolumes(ctx, &csi.ListVolumesRequest{MaxEntries: 1})
			return err
		}) != nil, nil
	})
	require.NoError(k.t, err)
}

// retried repeats as a CO does.
func retried(ctx context.Context, call func(ctx context.Context) error) error {
	for {
		err := call(ctx)
		if err == nil || !harness.Retriable(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// failover kills the leader and waits until all serve again.
func (k *fixture) failover() {
	k.t.Helper()
	leader, err := k.env.Cluster.Leader(k.ctx)
	require.NoError(k.t, err)
	pid, err := k.env.Cluster.Signal(leader, syscall.SIGKILL)
	require.NoError(k.t, err)
	require.NoError(k.t, k.env.Cluster.AwaitNewPID(k.ctx, leader, pid))
	k.awaitAllControllers()
}

// imageOf returns the path of a volume's file on n1.
func (k *fixture) imageOf(id string) string {
	k.t.Helper()
	l, err := k.env.Cluster.Layout()
	require.NoError(k.t, err)
	path := filepath.Join(l.Nodes[0].PoolDir, "volumes", id+".img")
	require.FileExists(k.t, path)
	return path
}

// whileHidden runs a function while a volume's file is moved away.
func (k *fixture) whileHidden(id string, during func()) {
	k.t.Helper()
	path := k.imageOf(id)
	elsewhere := filepath.Join(filepath.Dir(filepath.Dir(path)), "hidden-by-row")
	require.NoError(k.t, os.Rename(path, elsewhere))
	defer func() { require.NoError(k.t, os.Rename(elsewhere, path)) }()
	during()
}

// fillNode reserves all free space of n2, and releases it with the row.
func (k *fixture) fillNode() { k.fillNodeOf("n2") }

// fillNodeOf fills any node. New volumes count against the last measurement: a node is full only when nothing more
// fits after another measurement.
func (k *fixture) fillNodeOf(node string) {
	k.t.Helper()
	const least, measured, looks = 64 * harness.Mi, 3 * time.Second, 2
	seen := 0
	require.NoError(k.t, harness.Poll(k.ctx, 2*time.Minute, node+" to be full", func() (bool, error) {
		c, err := k.controller.GetCapacity(k.ctx, &csi.GetCapacityRequest{AccessibleTopology: nodeTerms(node)[0]})
		if err != nil {
			return false, err
		}
		most := c.GetMaximumVolumeSize().GetValue()
		if most < least {
			seen++
			time.Sleep(measured)
			return seen >= looks, nil
		}
		seen = 0
		res, err := k.controller.CreateVolume(k.ctx, k.newCreateRequest(withSize(most, 0), withVolumeCapabilities(blockCapability(writer)), withTopology(nodeTerms(node), nil)))
		if status.Code(err) == codes.ResourceExhausted {
			return false, nil // less is free by now
		}
		if err == nil {
			k.deleteVolumeLater(res.GetVolume().GetVolumeId())
		}
		return false, err
	}))
}
