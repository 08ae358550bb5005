package controller_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/csi/controller"
	"github.com/holdfast-storage/holdfast/fsm"
)

// S73, CSI-CTRL-VolumeCapability-05: a flag that no host takes is refused where it is
// first known, by its name and with those that there are.
func TestMountFlagsAreRefusedAtOnce(t *testing.T) {
	w := newEnv(t)
	id := w.create(t, "v")
	before := w.cluster.proposedCount()
	requested := mount(writer, "", "noatime", "data=journal")
	_, created := w.CreateVolume(t.Context(), createRequest("w", withCapabilities(requested)))
	_, published := w.ControllerPublishVolume(t.Context(), &publishReq{VolumeId: id, NodeId: "n1", VolumeCapability: requested})
	for name, err := range map[string]error{"CreateVolume": created, "ControllerPublishVolume": published} {
		requireCode(t, codes.InvalidArgument, err)
		require.Contains(t, err.Error(), `"data"`, name)
		require.Contains(t, err.Error(), "noatime", name)
		require.NotContains(t, err.Error(), "journal", name)
	}
	resp, err := w.ValidateVolumeCapabilities(t.Context(), &validateReq{VolumeId: id, VolumeCapabilities: []*csi.VolumeCapability{requested}})
	require.NoError(t, err)
	require.Nil(t, resp.GetConfirmed())
	require.Contains(t, resp.GetMessage(), `"data"`)
	require.Equal(t, before, w.cluster.proposedCount())
}

// One that belongs to the filesystem that a parameter names is judged by that.
func TestMountFlagsOfTheFilesystemThatIsMeant(t *testing.T) {
	w := newEnv(t)
	w.create(t, "xfs", withParameters("fsType", "xfs"), withCapabilities(mount(writer, "", "prjquota")))
	_, err := w.CreateVolume(t.Context(), createRequest("ext4", withCapabilities(mount(writer, "", "prjquota"))))
	requireCode(t, codes.InvalidArgument, err)
}

func TestMountFlagsThatAnOperatorAllows(t *testing.T) {
	w := newEnv(t)
	requested := createRequest("v", withCapabilities(mount(writer, "", "suid")))
	_, err := controller.New(w.cluster).CreateVolume(t.Context(), requested)
	requireCode(t, codes.InvalidArgument, err)
	require.Contains(t, err.Error(), "--allow-mount-flag=suid")
	_, err = controller.New(w.cluster).WithMountPolicy(fsm.MountPolicy{Suid: true}).CreateVolume(t.Context(), requested)
	require.NoError(t, err)
}
