package cluster

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// TestARawVolumeInUseIsSnapshottedAndCloned: the default pool of a developer's cluster shares blocks, whatever filesystem
// the cluster's directory is on, so a raw volume that is published for writing is snapshotted and cloned.
func TestARawVolumeInUseIsSnapshottedAndCloned(t *testing.T) {
	c := startCluster(t, harness.Options{Supervise: true})
	co := c.NewCO()
	v, err := co.Create(t.Context(), harness.Spec{Name: "raw", Size: 64 * harness.Mi, Block: true})
	require.NoError(t, err)
	require.NoError(t, co.PublishStageBind(t.Context(), v, "n1"))
	leader, err := c.Leader(t.Context())
	require.NoError(t, err)
	controller, err := c.Controller(leader)
	require.NoError(t, err)

	var snapshot string
	for range 2 {
		var taken *csi.CreateSnapshotResponse
		require.NoError(t, repeatUntilDefinite(t, "the snapshot", func() (err error) {
			taken, err = controller.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{SourceVolumeId: v.ID, Name: "of-raw"})
			return err
		}))
		require.True(t, taken.GetSnapshot().GetReadyToUse())
		snapshot = taken.GetSnapshot().GetSnapshotId()
	}
	req := harness.Spec{Name: "clone", Size: 64 * harness.Mi, Block: true}.CreateRequest()
	req.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: v.ID}}}
	var clone *csi.CreateVolumeResponse
	require.NoError(t, repeatUntilDefinite(t, "the clone", func() (err error) {
		clone, err = controller.CreateVolume(t.Context(), req)
		return err
	}))

	require.NoError(t, co.Delete(t.Context(), &harness.Volume{ID: clone.GetVolume().GetVolumeId()}))
	require.NoError(t, co.DeleteSnapshot(t.Context(), snapshot))
	require.NoError(t, co.UnbindUnstageUnpublish(t.Context(), v))
	removeAll(t, c)
}

// TestARawVolumeInUseIsNotSnapshottedWhereThePoolCopies: on a pool that copies it is refused, and the refusal says which pools could.
func TestARawVolumeInUseIsNotSnapshottedWhereThePoolCopies(t *testing.T) {
	c := startCluster(t, harness.Options{Supervise: true, Flags: []string{"--node-arg=--pool-image=never"}})
	co := c.NewCO()
	v, err := co.Create(t.Context(), harness.Spec{Name: "raw", Size: 64 * harness.Mi, Block: true})
	require.NoError(t, err)
	require.NoError(t, co.PublishStageBind(t.Context(), v, "n1"))
	leader, err := c.Leader(t.Context())
	require.NoError(t, err)
	controller, err := c.Controller(leader)
	require.NoError(t, err)
	for range 2 {
		err := repeatUntilDefinite(t, "the snapshot", func() error {
			_, err := controller.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{SourceVolumeId: v.ID, Name: "of-raw"})
			return err
		})
		if err == nil {
			t.Skip("the tests' folder shares blocks")
		}
		require.Equal(t, codes.FailedPrecondition, status.Code(err))
		require.ErrorContains(t, err, "xfs with reflink=1, or LVM thin")
	}
	require.NoError(t, co.UnbindUnstageUnpublish(t.Context(), v))
	removeAll(t, c)
}
