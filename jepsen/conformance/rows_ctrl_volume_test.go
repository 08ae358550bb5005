package conformance

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// badCapability makes a row: these are refused by every call that takes one.
func badCapability(all ...*csi.VolumeCapability) rowTest {
	return rowOf(func(k *fixture) {
		v := k.createVolume()
		for _, bad := range all {
			k.requireCreateRejected(codes.InvalidArgument, k.newCreateRequest(withVolumeCapabilities(bad)))
			k.requireCreateRejected(codes.InvalidArgument, k.newCreateRequest(withVolumeCapabilities(mountCapability(writer, "ext4"), bad)))
			for _, err := range k.callsWith(v.GetVolumeId(), bad) {
				requireRefused(k.t, err, codes.InvalidArgument)
			}
		}
	})
}

// as runs a script as another user, in the mounted volume. It is entered by a descriptor, because only root
// may enter the directories above it.
func as(u *mountedUse, uid, gid uint32, script string) error {
	at, err := os.Open(u.targets[0])
	if err != nil {
		return err
	}
	defer func() { _ = at.Close() }()
	cmd := exec.CommandContext(u.k.ctx, "sh", "-c", "cd /proc/self/fd/3 && "+script)
	cmd.ExtraFiles = []*os.File{at}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	return cmd.Run()
}

// unserved: an unknown filesystem is refused by every call except ValidateVolumeCapabilities, which does not
// confirm it and says why.
func (k *fixture) unserved(c *csi.VolumeCapability) {
	k.requireCreateRejected(codes.InvalidArgument, k.newCreateRequest(withVolumeCapabilities(c)))
	id := k.createVolume().GetVolumeId()
	answer := k.validate(&csi.ValidateVolumeCapabilitiesRequest{VolumeId: id, VolumeCapabilities: []*csi.VolumeCapability{c}})
	require.Nil(k.t, answer.GetConfirmed())
	require.NotEmpty(k.t, answer.GetMessage())
	for _, err := range k.callsWith(id, c)[1:] {
		requireRefused(k.t, err, codes.InvalidArgument)
	}
}

// callsWith returns the errors of all other calls with a capability.
func (k *fixture) callsWith(id string, c *csi.VolumeCapability) []error {
	_, validate := k.controller.ValidateVolumeCapabilities(k.ctx, &csi.ValidateVolumeCapabilitiesRequest{VolumeId: id, VolumeCapabilities: []*csi.VolumeCapability{c}})
	pub := publication(id)
	pub.VolumeCapability = c
	r := &csi.CapacityRange{RequiredBytes: 32 * harness.Mi}
	_, expand := k.controller.ControllerExpandVolume(k.ctx, &csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: r, VolumeCapability: c})
	node, staging, target := k.env.Node(k.t), k.env.Path("staging"), k.env.Path("target")
	_, stage := node.NodeStageVolume(k.ctx, &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: staging, VolumeCapability: c})
	_, bind := node.NodePublishVolume(k.ctx, &csi.NodePublishVolumeRequest{VolumeId: id, StagingTargetPath: staging, TargetPath: target, VolumeCapability: c})
	return []error{validate, k.publish(pub), expand, stage, bind}
}

// offOneHost makes a row of a mode that needs the data on several hosts: no volume is created for it, and
// none is confirmed to support it.
func offOneHost(m mode) rowTest {
	return rowOf(func(k *fixture) {
		k.requireCreateRejected(codes.InvalidArgument, k.newCreateRequest(withVolumeCapabilities(mountCapability(m, "ext4"))))
		k.requireCreateRejected(codes.InvalidArgument, k.newCreateRequest(withVolumeCapabilities(blockCapability(m))))
		id := k.createVolume().GetVolumeId()
		require.Nil(k.t, k.validate(&csi.ValidateVolumeCapabilitiesRequest{VolumeId: id, VolumeCapabilities: []*csi.VolumeCapability{mountCapability(m, "ext4")}}).GetConfirmed())
		pub := publication(id)
		pub.VolumeCapability = mountCapability(m, "ext4")
		requireRefused(k.t, k.publish(pub), codes.InvalidArgument)
	})
}

// onOneNode: a volume that is published at n1 in a mode cannot be published at n2.
func onOneNode(k *fixture, id string, m mode) {
	pub := publication(id)
	pub.NodeId, pub.VolumeCapability = "n2", mountCapability(m, "ext4")
	for range 2 {
		requireRefused(k.t, k.publish(pub), codes.FailedPrecondition)
	}
	require.Equal(k.t, []string{"n1"}, k.get(id).GetStatus().GetPublishedNodeIds())
}

var volumeCapabilityRows = map[string]rowTest{
	"CSI-CTRL-VolumeCapability-01": badCapability(&csi.VolumeCapability{AccessMode: blockCapability(writer).GetAccessMode()}, &csi.VolumeCapability{}),
	"CSI-CTRL-VolumeCapability-02": badCapability(&csi.VolumeCapability{AccessType: mountCapability(writer, "ext4").GetAccessType()}, &csi.VolumeCapability{AccessType: blockCapability(writer).GetAccessType()}),
	"CSI-CTRL-VolumeCapability-03": badCapability(mountCapability(0, "ext4"), blockCapability(0), mountCapability(99, "ext4"), mountCapability(-1, "ext4")),
	"CSI-CTRL-VolumeCapability-04": rowOf(func(k *fixture) {
		for _, fsType := range []string{"zzz", "EXT4", "ext4 ", "../ext4"} {
			k.unserved(mountCapability(writer, fsType))
		}
		for _, fsType := range []string{"", "ext4", "xfs"} {
			k.createVolume(withVolumeCapabilities(mountCapability(writer, fsType)), withSize(320*harness.Mi, 0))
		}
	}),
	"CSI-CTRL-VolumeCapability-05": rowOf(func(k *fixture) {
		k.createVolume(withVolumeCapabilities(mountCapability(writer, "ext4", longFlags()...)))
		badCapability(mountCapability(writer, "ext4", append(longFlags(), "ro")...))(k.t, k.env)
	}),
	"CSI-CTRL-VolumeCapability-06": rowOf(func(k *fixture) {
		res, err := k.env.Node(k.t).NodeGetCapabilities(k.ctx, &csi.NodeGetCapabilitiesRequest{})
		require.NoError(k.t, err)
		require.True(k.t, slices.ContainsFunc(res.GetCapabilities(), func(c *csi.NodeServiceCapability) bool {
			return c.GetRpc().GetType() == csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP
		}))
		group := mountCapability(writer, "ext4")
		group.GetMount().VolumeMountGroup = "1000"
		u := k.newMountedUse(k.createVolume(withVolumeCapabilities(group)), group, false)
		var st unix.Stat_t
		require.NoError(k.t, unix.Stat(u.targets[0], &st))
		require.EqualValues(k.t, 1000, st.Gid)
		group.GetMount().VolumeMountGroup = "staff"
		badCapability(group)(k.t, k.env)
	}),
	"CSI-CTRL-VolumeCapability-07": rowOf(func(k *fixture) {
		group := mountCapability(writer, "ext4")
		group.GetMount().VolumeMountGroup = "1000"
		u := k.newMountedUse(k.createVolume(withVolumeCapabilities(group)), group, false)
		require.NoError(k.t, as(u, 4242, 1000, "echo new > theirs"))
		require.NoError(k.t, as(u, 4343, 1000, "cat theirs && echo more >> theirs"))
		require.Error(k.t, as(u, 4343, 4343, "echo no > others"))
		require.Error(k.t, as(u, 4343, 4343, "echo no >> theirs"))
	}),
	"CSI-CTRL-VolumeCapability-08": rowOf(func(k *fixture) {
		id := k.createVolume().GetVolumeId()
		k.published(publication(id))
		onOneNode(k, id, writer)
	}),
	"CSI-CTRL-VolumeCapability-09": rowOf(func(k *fixture) {
		v := k.volumeWithText("before", withVolumeCapabilities(mountCapability(writer, "ext4"), mountCapability(reader, "ext4")))
		u := k.newMountedUse(v, mountCapability(reader, "ext4"), false)
		require.ErrorIs(k.t, u.write("after"), syscall.EROFS)
		require.Equal(k.t, "before", u.read())
		onOneNode(k, v.GetVolumeId(), reader)
	}),
	"CSI-CTRL-VolumeCapability-10": offOneHost(multiNodeReader),
	"CSI-CTRL-VolumeCapability-11": offOneHost(multiNodeSingleWriter),
	"CSI-CTRL-VolumeCapability-12": offOneHost(multiNodeMultiWriter),
	"CSI-CTRL-VolumeCapability-13": rowOf(func(k *fixture) {
		u := k.newMountedUse(k.createVolume(withVolumeCapabilities(mountCapability(oneWorkload, "ext4"))), mountCapability(oneWorkload, "ext4"), false)
		requireRefused(k.t, u.bind(), codes.FailedPrecondition)
		require.NoError(k.t, u.write("the first goes on"))
	}),
	"CSI-CTRL-VolumeCapability-14": rowOf(func(k *fixture) {
		v := k.createVolume(withVolumeCapabilities(mountCapability(allWorkloads, "ext4")))
		u := k.newMountedUse(v, mountCapability(allWorkloads, "ext4"), false)
		require.NoError(k.t, u.bind())
		require.NoError(k.t, u.write("seen by both"))
		text, err := os.ReadFile(u.targets[1] + "/row")
		require.NoError(k.t, err)
		require.Equal(k.t, "seen by both", string(text))
		onOneNode(k, v.GetVolumeId(), allWorkloads)
	}),
	"CSI-CTRL-VolumeCapability-16": rowOf(func(k *fixture) {
		require.True(k.t, controllerHas(csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)(k, k.env.Conn(k.t, "c1")))
		k.published(publication(k.createVolume(withVolumeCapabilities(mountCapability(writer, "ext4"))).GetVolumeId()))
	}),
}

var disabledCapabilityRows = map[string]rowTest{
	"CSI-CTRL-VolumeCapability-15": rowOf(func(k *fixture) {
		require.False(k.t, controllerHas(csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)(k, k.disabledConn("c1")))
		for _, m := range []mode{oneWorkload, allWorkloads} {
			_, err := k.disabledController().CreateVolume(k.ctx, k.newCreateRequest(withVolumeCapabilities(mountCapability(m, "ext4"))))
			requireRefused(k.t, err, codes.InvalidArgument)
			k.createVolume(withVolumeCapabilities(mountCapability(m, "ext4")))
		}
	}),
}

// allAnswers returns a volume as each call answers it.
func (k *fixture) allAnswers(req *createRequest, id string) []*csi.Volume {
	k.t.Helper()
	all := []*csi.Volume{k.createAgain(req)}
	k.everyController(func(_ string, c csi.ControllerClient) {
		got, err := c.ControllerGetVolume(k.ctx, &csi.ControllerGetVolumeRequest{VolumeId: id})
		require.NoError(k.t, err)
		all = append(all, got.GetVolume())
	})
	return append(all, k.listEntry(id).GetVolume())
}

var volumeRows = map[string]rowTest{
	"CSI-CTRL-Volume-01": rowOf(func(k *fixture) {
		req := k.newCreateRequest()
		for _, v := range k.allAnswers(req, k.createVolumeFrom(req).GetVolumeId()) {
			require.EqualValues(k.t, 16*harness.Mi, v.GetCapacityBytes())
		}
	}),
	"CSI-CTRL-Volume-02": rowOf(func(k *fixture) {
		req, seen := k.newCreateRequest(), map[string]bool{}
		for range 8 {
			id := k.createAgain(req).GetVolumeId()
			require.False(k.t, seen[id], "%s was given twice", id)
			seen[id] = true
			_, err := k.controller.DeleteVolume(k.ctx, &csi.DeleteVolumeRequest{VolumeId: id})
			require.NoError(k.t, err)
		}
	}),
	"CSI-CTRL-Volume-03": rowOf(func(k *fixture) {
		require.LessOrEqual(k.t, len(k.createVolume(withName(strings.Repeat("N", 128))).GetVolumeId()), 128)
	}),
	"CSI-CTRL-Volume-04": rowOf(contextNeverChanges),
	"CSI-CTRL-Volume-05": rowOf(func(k *fixture) {
		req := k.newCreateRequest()
		req.Secrets = map[string]string{"password": "canary-in-a-secret"}
		for _, v := range k.allAnswers(req, k.createVolumeFrom(req).GetVolumeId()) {
			require.NotContains(k.t, v.String(), "canary")
		}
	}),
	"CSI-CTRL-Volume-06": rowOf(func(k *fixture) { // newMountedUse passes no volume_context
		require.NoError(k.t, k.newMountedUse(k.createVolume(), mountCapability(writer, "ext4"), false).write("by its id alone"))
	}),
	"CSI-CTRL-Volume-07": rowOf(func(k *fixture) {
		source := k.createVolume().GetVolumeId()
		snapshot := k.snapshot(source).GetSnapshotId()
		for _, from := range []change{fromSnapshot(snapshot), fromVolume(source)} {
			req := k.newCreateRequest(from)
			for _, v := range k.allAnswers(req, k.createVolumeFrom(req).GetVolumeId()) {
				requireSame(k, req.GetVolumeContentSource(), v.GetContentSource())
			}
		}
		require.Nil(k.t, k.createVolume().GetContentSource())
	}),
	"CSI-CTRL-Volume-08": rowOf(func(k *fixture) {
		require.True(k.t, pluginHas(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)(k, k.env.Conn(k.t, "c1")))
		req := k.newCreateRequest()
		for _, v := range k.allAnswers(req, k.createVolumeFrom(req).GetVolumeId()) {
			require.Equal(k.t, "n1", k.nodeOf(v))
		}
	}),
	"CSI-CTRL-Volume-09": rowOf(contextNeverChanges),
}

// contextNeverChanges while a volume is used, grown and modified.
func contextNeverChanges(k *fixture) {
	req := k.newCreateRequest()
	v := k.createVolumeFrom(req)
	same := func() {
		k.t.Helper()
		for _, other := range k.allAnswers(req, v.GetVolumeId()) {
			require.Equal(k.t, v.GetVolumeContext(), other.GetVolumeContext())
		}
	}
	same()
	k.newMountedUse(v, mountCapability(writer, "ext4"), false)
	same()
	k.untilOK(func() error {
		_, err := k.controller.ControllerExpandVolume(k.ctx, &csi.ControllerExpandVolumeRequest{VolumeId: v.GetVolumeId(), CapacityRange: &csi.CapacityRange{RequiredBytes: 32 * harness.Mi}})
		return err
	})
	same()
}

func (k *fixture) deleted(req *csi.DeleteVolumeRequest) error {
	_, err := k.controller.DeleteVolume(k.ctx, req)
	return err
}

var deleteVolumeRows = map[string]rowTest{
	"CSI-CTRL-DeleteVolume-01": rowAlwaysServed(csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, func(k *fixture, c csi.ControllerClient) error {
		id := k.createVolume().GetVolumeId()
		_, err := c.DeleteVolume(k.ctx, &csi.DeleteVolumeRequest{VolumeId: id})
		require.Nil(k.t, k.listEntry(id))
		return err
	}),
	"CSI-CTRL-DeleteVolume-02": rowRefused(codes.InvalidArgument, func(k *fixture) error { return k.deleted(&csi.DeleteVolumeRequest{}) }),
	"CSI-CTRL-DeleteVolume-03": rowOf(func(k *fixture) {
		id := k.createVolume().GetVolumeId()
		for _, gone := range []string{id, id, unknownVolumeID, "x", "../..", "hf-", strings.Repeat("i", 128)} {
			require.NoError(k.t, k.deleted(&csi.DeleteVolumeRequest{VolumeId: gone}))
		}
		require.Nil(k.t, k.listEntry(id))
		images, err := k.env.Cluster.Images("n1")
		require.NoError(k.t, err)
		require.NotContains(k.t, images, id)
	}),
	"CSI-CTRL-DeleteVolume-05": rowOf(snapshotsSurvive),
	"CSI-CTRL-DeleteVolume-07": rowOf(func(k *fixture) {
		v := k.createVolume()
		u := k.newMountedUse(v, mountCapability(writer, "ext4"), false)
		require.NoError(k.t, u.write("kept"))
		for range 2 {
			requireRefused(k.t, k.deleted(&csi.DeleteVolumeRequest{VolumeId: v.GetVolumeId()}), codes.FailedPrecondition)
		}
		require.Equal(k.t, "kept", u.read())
		only := k.createVolume().GetVolumeId()
		k.published(publication(only))
		requireRefused(k.t, k.deleted(&csi.DeleteVolumeRequest{VolumeId: only}), codes.FailedPrecondition)
	}),
	"CSI-CTRL-DeleteVolume-08": rowOf(func(k *fixture) {
		for _, secrets := range []map[string]string{nil, {"user": "u"}} {
			id := k.createVolume().GetVolumeId()
			require.NoError(k.t, k.deleted(&csi.DeleteVolumeRequest{VolumeId: id, Secrets: secrets}))
			require.Nil(k.t, k.listEntry(id))
		}
	}),
	"CSI-CTRL-DeleteVolume-10": rowOf(snapshotsSurvive),
}

// snapshotsSurvive the volume that they were taken of.
func snapshotsSurvive(k *fixture) {
	v := k.volumeWithText("cut before the end")
	snapshot := k.snapshot(v.GetVolumeId())
	require.NoError(k.t, k.deleted(&csi.DeleteVolumeRequest{VolumeId: v.GetVolumeId()}))
	require.Equal(k.t, []string{snapshot.GetSnapshotId()}, k.snapshotsOf([]string{v.GetVolumeId()}))
	require.Equal(k.t, "cut before the end", k.newMountedUse(k.createVolume(fromSnapshot(snapshot.GetSnapshotId())), mountCapability(writer, "ext4"), false).read())
}
