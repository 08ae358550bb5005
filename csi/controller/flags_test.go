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
	w := newWorld(t)
	id := w.create(t, "v")
	before := w.cluster.commands()
	asked := mount(writer, "", "noatime", "data=journal")
	_, created := w.CreateVolume(t.Context(), named("w", forUse(asked)))
	_, published := w.ControllerPublishVolume(t.Context(), &publishReq{VolumeId: id, NodeId: "n1", VolumeCapability: asked})
	for name, err := range map[string]error{"CreateVolume": created, "ControllerPublishVolume": published} {
		requireCode(t, codes.InvalidArgument, err)
		require.Contains(t, err.Error(), `"data"`, name)
		require.Contains(t, err.Error(), "noatime", name)
		require.NotContains(t, err.Error(), "journal", name)
	}
	resp, err := w.ValidateVolumeCapabilities(t.Context(), &validateReq{VolumeId: id, VolumeCapabilities: []*csi.VolumeCapability{asked}})
	require.NoError(t, err)
	require.Nil(t, resp.GetConfirmed())
	require.Contains(t, resp.GetMessage(), `"data"`)
	require.Equal(t, before, w.cluster.commands())
}

// One that belongs to the filesystem that a parameter names is judged by that.
func TestMountFlagsOfTheFilesystemThatIsMeant(t *testing.T) {
	w := newWorld(t)
	w.create(t, "xfs", with("fsType", "xfs"), forUse(mount(writer, "", "prjquota")))
	_, err := w.CreateVolume(t.Context(), named("ext4", forUse(mount(writer, "", "prjquota"))))
	requireCode(t, codes.InvalidArgument, err)
}

func TestMountFlagsThatAnOperatorAllows(t *testing.T) {
	w := newWorld(t)
	asked := named("v", forUse(mount(writer, "", "suid")))
	_, err := controller.New(w.cluster).CreateVolume(t.Context(), asked)
	requireCode(t, codes.InvalidArgument, err)
	require.Contains(t, err.Error(), "--allow-mount-flag=suid")
	_, err = controller.New(w.cluster).AllowMounts(fsm.MountPolicy{Suid: true}).CreateVolume(t.Context(), asked)
	require.NoError(t, err)
}
