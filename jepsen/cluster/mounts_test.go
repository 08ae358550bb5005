package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// kinds are the ways in which a volume can be used.
var kinds = map[string]harness.Spec{
	"ext4": {Name: "kind-ext4", Size: 32 * harness.Mi, FSType: "ext4"},
	"xfs":  {Name: "kind-xfs", Size: 320 * harness.Mi, FSType: "xfs"},
	"raw":  {Name: "kind-raw", Size: 16 * harness.Mi, Block: true},
}

// oneMountEach asserts that a volume that is up has one loop device, one mount
// at its target, and one staging mount unless it is raw (S122, S124).
func oneMountEach(t *testing.T, c *harness.Cluster, v *harness.Volume) {
	t.Helper()
	loops, err := c.LoopsOf(v.ID)
	require.NoError(t, err)
	require.Len(t, loops, 1, "loop devices of %s", v.ID)
	at, err := harness.MountsAt(v.Target)
	require.NoError(t, err)
	require.Equal(t, 1, at, "mounts at the target")
	if v.Block {
		return
	}
	at, err = harness.MountsAt(v.Staging)
	require.NoError(t, err)
	require.Equal(t, 1, at, "mounts at the staging path")
}

// TestStageAndPublishTenTimesOver: repeated calls change nothing (CSI-NODE-NodeStageVolume, -NodePublishVolume
// idempotency; S122).
func TestStageAndPublishTenTimesOver(t *testing.T) {
	c := startCluster(t, harness.Options{Supervise: true})
	co := c.NewCO()
	for name, spec := range kinds {
		t.Run(name+" has one mount each", func(t *testing.T) {
			v, err := co.Create(t.Context(), spec)
			require.NoError(t, err)
			for range 10 {
				require.NoError(t, co.PublishStageBind(t.Context(), v, "n1"))
				oneMountEach(t, c, v)
			}
			data, err := writeTo(v)
			require.NoError(t, err)
			restart(t, c, "n1")
			require.NoError(t, co.PublishStageBind(t.Context(), v, "n1"))
			oneMountEach(t, c, v)
			require.NoError(t, sameData(v, data), "after the node's restart")
			for range 2 {
				require.NoError(t, co.UnpublishTarget(t.Context(), v))
				require.NoError(t, co.Unstage(t.Context(), v))
			}
			loops, err := c.LoopsOf(v.ID)
			require.NoError(t, err)
			require.Empty(t, loops, "an unstaged volume holds a loop device")
			require.NoError(t, co.PublishStageBind(t.Context(), v, "n1"))
			require.NoError(t, sameData(v, data), "after staging again: formatted once (S15)")
			require.NoError(t, co.UnbindUnstageUnpublish(t.Context(), v))
			require.NoError(t, co.Delete(t.Context(), v))
		})
	}
	require.NoError(t, c.AwaitNoLeftovers(t.Context()))
	require.NoError(t, c.AwaitCleanAudit(t.Context()))
}

// TestMountsOutliveTheCluster: staged volumes stay when the cluster is stopped by SIGTERM or SIGKILL, and are adopted
// when it starts again; a volume that is not staged has no device (S124).
func TestMountsOutliveTheCluster(t *testing.T) {
	c := startCluster(t, harness.Options{Supervise: true})
	co := c.NewCO()
	var volumes []*harness.Volume
	var data [][]byte
	for _, spec := range kinds {
		v, err := co.Create(t.Context(), spec)
		require.NoError(t, err)
		require.NoError(t, co.PublishStageBind(t.Context(), v, "n1"))
		wrote, err := writeTo(v)
		require.NoError(t, err)
		volumes, data = append(volumes, v), append(data, wrote)
	}
	for _, stop := range []func(context.Context) error{c.Stop, c.Kill9} {
		require.NoError(t, stop(t.Context()))
		for i, v := range volumes {
			oneMountEach(t, c, v)
			require.NoError(t, sameData(v, data[i]), "while the cluster is stopped")
		}
		require.NoError(t, c.Resume(t.Context()))
		for i, v := range volumes {
			require.NoError(t, co.PublishStageBind(t.Context(), v, "n1"), "adopted")
			oneMountEach(t, c, v)
			require.NoError(t, sameData(v, data[i]))
		}
		require.NoError(t, c.AwaitCleanAudit(t.Context()))
	}
	for _, v := range volumes {
		require.NoError(t, co.UnbindUnstageUnpublish(t.Context(), v))
	}
	removeAll(t, c)
}

// restart kills a child with SIGKILL and waits until it runs again.
func restart(t *testing.T, c *harness.Cluster, id string) {
	t.Helper()
	pid, err := c.Signal(id, syscall.SIGKILL)
	require.NoError(t, err)
	require.NoError(t, c.AwaitNewPID(t.Context(), id, pid))
}

// dataPath is where a volume's data goes: a file in it, or the device itself.
func dataPath(v *harness.Volume) string {
	if v.Block {
		return v.Target
	}
	return filepath.Join(v.Target, "data")
}

// writeTo writes and syncs random bytes, and answers them.
func writeTo(v *harness.Volume) ([]byte, error) {
	data := make([]byte, harness.Mi)
	if _, err := rand.Read(data); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(dataPath(v), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(data)
	return data, errors.Join(err, f.Sync(), f.Close())
}

// sameData answers an error unless the volume begins with the data.
func sameData(v *harness.Volume, data []byte) error {
	f, err := os.Open(dataPath(v))
	if err != nil {
		return err
	}
	defer f.Close()
	got := make([]byte, len(data))
	if _, err := f.ReadAt(got, 0); err != nil {
		return fmt.Errorf("read %s back: %w", v.ID, err)
	}
	if !bytes.Equal(got, data) {
		return fmt.Errorf("read %s back: it is not what was written", v.ID)
	}
	return nil
}

// logCode logs the error of a call and returns its code.
func logCode(t *testing.T, what string, err error) codes.Code {
	t.Logf("%s: %v", what, err)
	return status.Code(err)
}

// TestS28_WithoutAQuorumOnlyTeardownWorks: without a quorum unpublish and unstage on a node work, all else is refused.
func TestS28_WithoutAQuorumOnlyTeardownWorks(t *testing.T) {
	c := startCluster(t, harness.Options{Supervise: false})
	co := c.NewCO()
	v := prepare(t, co)

	survivor, dead := loseQuorum(t, c)
	refusedWithoutQuorum(t, c, co, survivor, v)

	require.NoError(t, co.UnpublishTarget(t.Context(), v.mounted))
	require.NoError(t, co.Unstage(t.Context(), v.mounted))
	require.NoError(t, co.Unstage(t.Context(), v.staged))
	at, err := harness.Mounts(c.Mounts())
	require.NoError(t, err)
	require.Empty(t, at, "NodeUnstage answered OK, but something is mounted")
	require.NoError(t, co.UnpublishTarget(t.Context(), v.mounted), "the same again")

	for _, id := range dead {
		require.NoError(t, c.StartChild(t.Context(), id))
	}
	for _, volume := range []*harness.Volume{v.mounted, v.staged, v.published} {
		require.NoError(t, unpublishAfterTeardown(t, co, volume), "the outbox did not drain: S31 refuses a staged volume")
	}
	require.NoError(t, c.AwaitAgreement(t.Context()))
	require.NoError(t, c.AwaitCleanAudit(t.Context()))
	removeAll(t, c) // also what a refused call may have done after all
}

// loseQuorum kills both followers.
func loseQuorum(t *testing.T, c *harness.Cluster) (leader string, dead []string) {
	now := awaitHealthy(t, c)
	dead = now.Followers()
	require.Len(t, dead, 2)
	for _, id := range dead {
		require.NoError(t, c.Kill(t.Context(), id))
	}
	return now.Leader, dead
}

// awaitHealthy waits until all members agree, one of them leads and the others follow it.
func awaitHealthy(t *testing.T, c *harness.Cluster) (now harness.Status) {
	t.Helper()
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "a leader and its followers to agree", func() (bool, error) {
		var err error
		if now, err = c.Status(t.Context()); err == nil {
			err = now.Agree()
		}
		return err == nil && now.Leader != "" && len(now.Followers()) == len(now.Members)-1, err
	}))
	return now
}

// unpublishAfterTeardown unpublishes as soon as the records of a host's tear-down have reached the log.
func unpublishAfterTeardown(t *testing.T, co *harness.CO, v *harness.Volume) error {
	return harness.Poll(t.Context(), harness.Patience, "the outbox to drain", func() (bool, error) {
		err := co.Unpublish(t.Context(), v)
		if err != nil && status.Code(err) != codes.FailedPrecondition {
			err = harness.Permanent(err)
		}
		return err == nil, err
	})
}

// useStates has one volume in each state of use.
type useStates struct{ mounted, staged, published, created *harness.Volume }

func prepare(t *testing.T, co *harness.CO) useStates {
	var volumes []*harness.Volume
	for _, name := range []string{"up", "staged", "published", "fresh"} {
		v, err := co.Create(t.Context(), harness.Spec{Name: name})
		require.NoError(t, err)
		volumes = append(volumes, v)
	}
	v := useStates{volumes[0], volumes[1], volumes[2], volumes[3]}
	require.NoError(t, co.PublishStageBind(t.Context(), v.mounted, "n1"))
	require.NoError(t, co.Publish(t.Context(), v.staged, "n1"))
	require.NoError(t, co.Stage(t.Context(), v.staged))
	require.NoError(t, co.Publish(t.Context(), v.published, "n1"))
	return v
}

// refusedWithoutQuorum asserts UNAVAILABLE, without delay, for every call that needs the log, also with a short
// deadline.
func refusedWithoutQuorum(t *testing.T, c *harness.Cluster, co *harness.CO, controller string, v useStates) {
	ctl, err := c.Controller(controller)
	require.NoError(t, err)
	node, err := c.Node("n1")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(co.StageRequest(v.published).StagingTargetPath, 0o750))
	require.NoError(t, os.MkdirAll(filepath.Dir(co.TargetRequest(v.staged).TargetPath), 0o750))
	for _, deadline := range []time.Duration{2 * time.Second, 10 * time.Second} {
		for what, call := range map[string]func() error{
			"ControllerPublish": func() error {
				_, err := ctl.ControllerPublishVolume(timeoutContext(t, deadline), &csi.ControllerPublishVolumeRequest{
					VolumeId: v.created.ID, NodeId: "n1", VolumeCapability: v.created.Capability()})
				return err
			},
			"ControllerUnpublish": func() error {
				_, err := ctl.ControllerUnpublishVolume(timeoutContext(t, deadline), &csi.ControllerUnpublishVolumeRequest{VolumeId: v.published.ID, NodeId: "n1"})
				return err
			},
			"CreateVolume": func() error {
				_, err := ctl.CreateVolume(timeoutContext(t, deadline), harness.Spec{Name: "no-quorum"}.CreateRequest())
				return err
			},
			"NodeStage": func() error {
				_, err := node.NodeStageVolume(timeoutContext(t, deadline), co.StageRequest(v.published))
				return err
			},
			"NodePublish": func() error {
				_, err := node.NodePublishVolume(timeoutContext(t, deadline), co.TargetRequest(v.staged))
				return err
			},
		} {
			begin := time.Now()
			var err error
			require.NoError(t, harness.Poll(t.Context(), harness.Patience, what+" to be answered", func() (bool, error) {
				err = call() // on a busy machine the answer may come too late: it leaves 200 ms before
				return status.Code(err) != codes.DeadlineExceeded, err
			}))
			require.Equal(t, codes.Unavailable, logCode(t, fmt.Sprintf("%s within %s, after %s", what, deadline, time.Since(begin)), err))
		}
	}
}
