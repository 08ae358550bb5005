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

// stopped runs something while a process gets no time of the processors.
func (k *kit) stopped(ids []string, during func()) {
	k.t.Helper()
	resume := func() {
		for _, id := range ids {
			_, _ = k.w.Cluster.Signal(id, syscall.SIGCONT)
		}
	}
	defer resume()
	for _, id := range ids {
		_, err := k.w.Cluster.Signal(id, syscall.SIGSTOP)
		require.NoError(k.t, err)
	}
	during()
}

// soon bounds one call that is not expected to be carried out.
func (k *kit) soon(call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(k.ctx, 1500*time.Millisecond)
	defer cancel()
	return call(ctx)
}

// pending asserts that a call that cannot be carried out is ABORTED before its deadline.
// Where others use the processors the answer may come too late for one attempt.
func (k *kit) pending(call func(ctx context.Context) error) {
	k.t.Helper()
	var err error
	require.NoError(k.t, harness.Poll(k.ctx, patience, "an answer before the deadline", func() (bool, error) {
		err = k.soon(call)
		return status.Code(err) != codes.DeadlineExceeded, err
	}))
	refused(k.t, err, codes.Aborted)
}

// settled waits until all controllers answer again.
func (k *kit) settled() {
	k.t.Helper()
	err := harness.Poll(k.ctx, patience, "all controllers to serve", func() (bool, error) {
		for _, id := range []string{"c1", "c2", "c3"} {
			c, err := k.w.Cluster.Controller(id)
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

// withoutQuorum makes a row of a call that fails, and has no OK, while no majority
// can be asked; afterwards it is carried out.
func withoutQuorum(prepare func(k *kit) func(ctx context.Context) error) rowTest {
	return with(func(k *kit) {
		call := prepare(k)
		k.stopped([]string{"c2", "c3"}, func() {
			k.leaderless()
			err := k.soon(call)
			require.Error(k.t, err)
			require.Contains(k.t, []codes.Code{codes.Aborted, codes.Unavailable, codes.DeadlineExceeded}, status.Code(err))
		})
		k.settled()
		require.NoError(k.t, retried(k.ctx, call))
	})
}

// leaderless waits until c1 knows that it has no majority: a leader may answer
// until its lease ends.
func (k *kit) leaderless() {
	k.t.Helper()
	err := harness.Poll(k.ctx, patience, "c1 to answer no more", func() (bool, error) {
		return k.soon(func(ctx context.Context) error {
			_, err := k.ctl.ListVolumes(ctx, &csi.ListVolumesRequest{MaxEntries: 1})
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
func (k *kit) failover() {
	k.t.Helper()
	leader, err := k.w.Cluster.Leader(k.ctx)
	require.NoError(k.t, err)
	pid, err := k.w.Cluster.Signal(leader, syscall.SIGKILL)
	require.NoError(k.t, err)
	require.NoError(k.t, k.w.Cluster.AwaitOther(k.ctx, leader, pid))
	k.settled()
}

// imageOf is the file that keeps a volume on n1.
func (k *kit) imageOf(id string) string {
	k.t.Helper()
	l, err := k.w.Cluster.Layout()
	require.NoError(k.t, err)
	path := filepath.Join(l.Nodes[0].PoolDir, "volumes", id+".img")
	require.FileExists(k.t, path)
	return path
}

// hidden runs something while the file that keeps a volume is elsewhere.
func (k *kit) hidden(id string, during func()) {
	k.t.Helper()
	path := k.imageOf(id)
	elsewhere := filepath.Join(filepath.Dir(filepath.Dir(path)), "hidden-by-row")
	require.NoError(k.t, os.Rename(path, elsewhere))
	defer func() { require.NoError(k.t, os.Rename(elsewhere, path)) }()
	during()
}

// full reserves all that is left of n2, and gives it back with the row.
func (k *kit) full() { k.fullAt("n2") }

// fullAt is full, of any node. What was just placed counts against what was measured
// before it: a node is full only when nothing more fits once it was measured again.
func (k *kit) fullAt(node string) {
	k.t.Helper()
	const least, measured, looks = 64 * harness.Mi, 3 * time.Second, 2
	seen := 0
	require.NoError(k.t, harness.Poll(k.ctx, 2*time.Minute, node+" to be full", func() (bool, error) {
		c, err := k.ctl.GetCapacity(k.ctx, &csi.GetCapacityRequest{AccessibleTopology: places(node)[0]})
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
		res, err := k.ctl.CreateVolume(k.ctx, k.asked(sized(most, 0), capable(raw(writer)), at(places(node), nil)))
		if status.Code(err) == codes.ResourceExhausted {
			return false, nil // less is free by now
		}
		if err == nil {
			k.dropVolume(res.GetVolume().GetVolumeId())
		}
		return false, err
	}))
}
