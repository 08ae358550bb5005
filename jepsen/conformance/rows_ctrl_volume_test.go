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
	return with(func(k *kit) {
		v := k.made()
		for _, bad := range all {
			k.rejects(codes.InvalidArgument, k.asked(capable(bad)))
			k.rejects(codes.InvalidArgument, k.asked(capable(mounted(writer, "ext4"), bad)))
			for _, err := range k.callsWith(v.GetVolumeId(), bad) {
				refused(k.t, err, codes.InvalidArgument)
			}
		}
	})
}

// as runs a script as somebody, in the mounted volume. It is entered by a descriptor:
// the folders above it are root's alone.
func as(u *usage, uid, gid uint32, script string) error {
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

// unserved: a filesystem that nobody serves is refused by every call but the one that
// asks about it, which does not confirm it and says why.
func (k *kit) unserved(c *csi.VolumeCapability) {
	k.rejects(codes.InvalidArgument, k.asked(capable(c)))
	id := k.made().GetVolumeId()
	answer := k.validate(&csi.ValidateVolumeCapabilitiesRequest{VolumeId: id, VolumeCapabilities: []*csi.VolumeCapability{c}})
	require.Nil(k.t, answer.GetConfirmed())
	require.NotEmpty(k.t, answer.GetMessage())
	for _, err := range k.callsWith(id, c)[1:] {
		refused(k.t, err, codes.InvalidArgument)
	}
}

// callsWith is how all other calls answer a capability.
func (k *kit) callsWith(id string, c *csi.VolumeCapability) []error {
	_, validate := k.ctl.ValidateVolumeCapabilities(k.ctx, &csi.ValidateVolumeCapabilitiesRequest{VolumeId: id, VolumeCapabilities: []*csi.VolumeCapability{c}})
	pub := publication(id)
	pub.VolumeCapability = c
	r := &csi.CapacityRange{RequiredBytes: 32 * harness.Mi}
	_, expand := k.ctl.ControllerExpandVolume(k.ctx, &csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: r, VolumeCapability: c})
	node, staging, target := k.w.Node(k.t), k.w.Path("staging"), k.w.Path("target")
	_, stage := node.NodeStageVolume(k.ctx, &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: staging, VolumeCapability: c})
	_, bind := node.NodePublishVolume(k.ctx, &csi.NodePublishVolumeRequest{VolumeId: id, StagingTargetPath: staging, TargetPath: target, VolumeCapability: c})
	return []error{validate, k.publish(pub), expand, stage, bind}
}

// offOneHost makes a row of a mode that needs the data on many hosts: no volume
// is made for it, and none is confirmed to serve it.
func offOneHost(m mode) rowTest {
	return with(func(k *kit) {
		k.rejects(codes.InvalidArgument, k.asked(capable(mounted(m, "ext4"))))
		k.rejects(codes.InvalidArgument, k.asked(capable(raw(m))))
		id := k.made().GetVolumeId()
		require.Nil(k.t, k.validate(&csi.ValidateVolumeCapabilitiesRequest{VolumeId: id, VolumeCapabilities: []*csi.VolumeCapability{mounted(m, "ext4")}}).GetConfirmed())
		pub := publication(id)
		pub.VolumeCapability = mounted(m, "ext4")
		refused(k.t, k.publish(pub), codes.InvalidArgument)
	})
}

// onOneNode: what is published at n1 in a mode is not published at n2.
func onOneNode(k *kit, id string, m mode) {
	pub := publication(id)
	pub.NodeId, pub.VolumeCapability = "n2", mounted(m, "ext4")
	for range 2 {
		refused(k.t, k.publish(pub), codes.FailedPrecondition)
	}
	require.Equal(k.t, []string{"n1"}, k.get(id).GetStatus().GetPublishedNodeIds())
}

var volumeCapabilityRows = map[string]rowTest{
	"CSI-CTRL-VolumeCapability-01": badCapability(&csi.VolumeCapability{AccessMode: raw(writer).GetAccessMode()}, &csi.VolumeCapability{}),
	"CSI-CTRL-VolumeCapability-02": badCapability(&csi.VolumeCapability{AccessType: mounted(writer, "ext4").GetAccessType()}, &csi.VolumeCapability{AccessType: raw(writer).GetAccessType()}),
	"CSI-CTRL-VolumeCapability-03": badCapability(mounted(0, "ext4"), raw(0), mounted(99, "ext4"), mounted(-1, "ext4")),
	"CSI-CTRL-VolumeCapability-04": with(func(k *kit) {
		for _, fsType := range []string{"zzz", "EXT4", "ext4 ", "../ext4"} {
			k.unserved(mounted(writer, fsType))
		}
		for _, fsType := range []string{"", "ext4", "xfs"} {
			k.made(capable(mounted(writer, fsType)), sized(320*harness.Mi, 0))
		}
	}),
	"CSI-CTRL-VolumeCapability-05": with(func(k *kit) {
		k.made(capable(mounted(writer, "ext4", longFlags()...)))
		badCapability(mounted(writer, "ext4", append(longFlags(), "ro")...))(k.t, k.w)
	}),
	"CSI-CTRL-VolumeCapability-06": with(func(k *kit) {
		res, err := k.w.Node(k.t).NodeGetCapabilities(k.ctx, &csi.NodeGetCapabilitiesRequest{})
		require.NoError(k.t, err)
		require.True(k.t, slices.ContainsFunc(res.GetCapabilities(), func(c *csi.NodeServiceCapability) bool {
			return c.GetRpc().GetType() == csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP
		}))
		group := mounted(writer, "ext4")
		group.GetMount().VolumeMountGroup = "1000"
		u := k.inUse(k.made(capable(group)), group, false)
		var st unix.Stat_t
		require.NoError(k.t, unix.Stat(u.targets[0], &st))
		require.EqualValues(k.t, 1000, st.Gid)
		group.GetMount().VolumeMountGroup = "staff"
		badCapability(group)(k.t, k.w)
	}),
	"CSI-CTRL-VolumeCapability-07": with(func(k *kit) {
		group := mounted(writer, "ext4")
		group.GetMount().VolumeMountGroup = "1000"
		u := k.inUse(k.made(capable(group)), group, false)
		require.NoError(k.t, as(u, 4242, 1000, "echo new > theirs"))
		require.NoError(k.t, as(u, 4343, 1000, "cat theirs && echo more >> theirs"))
		require.Error(k.t, as(u, 4343, 4343, "echo no > others"))
		require.Error(k.t, as(u, 4343, 4343, "echo no >> theirs"))
	}),
	"CSI-CTRL-VolumeCapability-08": with(func(k *kit) {
		id := k.made().GetVolumeId()
		k.published(publication(id))
		onOneNode(k, id, writer)
	}),
	"CSI-CTRL-VolumeCapability-09": with(func(k *kit) {
		v := k.written("before", capable(mounted(writer, "ext4"), mounted(reader, "ext4")))
		u := k.inUse(v, mounted(reader, "ext4"), false)
		require.ErrorIs(k.t, u.write("after"), syscall.EROFS)
		require.Equal(k.t, "before", u.read())
		onOneNode(k, v.GetVolumeId(), reader)
	}),
	"CSI-CTRL-VolumeCapability-10": offOneHost(manyReaders),
	"CSI-CTRL-VolumeCapability-11": offOneHost(oneOfMany),
	"CSI-CTRL-VolumeCapability-12": offOneHost(manyWriters),
	"CSI-CTRL-VolumeCapability-13": with(func(k *kit) {
		u := k.inUse(k.made(capable(mounted(oneWorkload, "ext4"))), mounted(oneWorkload, "ext4"), false)
		refused(k.t, u.bind(), codes.FailedPrecondition)
		require.NoError(k.t, u.write("the first goes on"))
	}),
	"CSI-CTRL-VolumeCapability-14": with(func(k *kit) {
		v := k.made(capable(mounted(allWorkloads, "ext4")))
		u := k.inUse(v, mounted(allWorkloads, "ext4"), false)
		require.NoError(k.t, u.bind())
		require.NoError(k.t, u.write("seen by both"))
		text, err := os.ReadFile(u.targets[1] + "/row")
		require.NoError(k.t, err)
		require.Equal(k.t, "seen by both", string(text))
		onOneNode(k, v.GetVolumeId(), allWorkloads)
	}),
	"CSI-CTRL-VolumeCapability-16": with(func(k *kit) {
		require.True(k.t, controllerHas(csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)(k, k.w.Conn(k.t, "c1")))
		k.published(publication(k.made(capable(mounted(writer, "ext4"))).GetVolumeId()))
	}),
}

var lessCapabilityRows = map[string]rowTest{
	"CSI-CTRL-VolumeCapability-15": with(func(k *kit) {
		require.False(k.t, controllerHas(csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)(k, k.lessConn("c1")))
		for _, m := range []mode{oneWorkload, allWorkloads} {
			_, err := k.lessController().CreateVolume(k.ctx, k.asked(capable(mounted(m, "ext4"))))
			refused(k.t, err, codes.InvalidArgument)
			k.made(capable(mounted(m, "ext4")))
		}
	}),
}

// allAnswers are a volume as each call tells it.
func (k *kit) allAnswers(req *createRequest, id string) []*csi.Volume {
	k.t.Helper()
	all := []*csi.Volume{k.again(req)}
	k.everyController(func(_ string, c csi.ControllerClient) {
		got, err := c.ControllerGetVolume(k.ctx, &csi.ControllerGetVolumeRequest{VolumeId: id})
		require.NoError(k.t, err)
		all = append(all, got.GetVolume())
	})
	return append(all, k.listed(id).GetVolume())
}

var volumeRows = map[string]rowTest{
	"CSI-CTRL-Volume-01": with(func(k *kit) {
		req := k.asked()
		for _, v := range k.allAnswers(req, k.answered(req).GetVolumeId()) {
			require.EqualValues(k.t, 16*harness.Mi, v.GetCapacityBytes())
		}
	}),
	"CSI-CTRL-Volume-02": with(func(k *kit) {
		req, seen := k.asked(), map[string]bool{}
		for range 8 {
			id := k.again(req).GetVolumeId()
			require.False(k.t, seen[id], "%s was given twice", id)
			seen[id] = true
			_, err := k.ctl.DeleteVolume(k.ctx, &csi.DeleteVolumeRequest{VolumeId: id})
			require.NoError(k.t, err)
		}
	}),
	"CSI-CTRL-Volume-03": with(func(k *kit) {
		require.LessOrEqual(k.t, len(k.made(named(strings.Repeat("N", 128))).GetVolumeId()), 128)
	}),
	"CSI-CTRL-Volume-04": with(contextNeverChanges),
	"CSI-CTRL-Volume-05": with(func(k *kit) {
		req := k.asked()
		req.Secrets = map[string]string{"password": "canary-in-a-secret"}
		for _, v := range k.allAnswers(req, k.answered(req).GetVolumeId()) {
			require.NotContains(k.t, v.String(), "canary")
		}
	}),
	"CSI-CTRL-Volume-06": with(func(k *kit) { // inUse passes no volume_context
		require.NoError(k.t, k.inUse(k.made(), mounted(writer, "ext4"), false).write("by its id alone"))
	}),
	"CSI-CTRL-Volume-07": with(func(k *kit) {
		source := k.made().GetVolumeId()
		cut := k.snapshot(source).GetSnapshotId()
		for _, from := range []change{ofSnapshot(cut), ofVolume(source)} {
			req := k.asked(from)
			for _, v := range k.allAnswers(req, k.answered(req).GetVolumeId()) {
				requireSame(k, req.GetVolumeContentSource(), v.GetContentSource())
			}
		}
		require.Nil(k.t, k.made().GetContentSource())
	}),
	"CSI-CTRL-Volume-08": with(func(k *kit) {
		require.True(k.t, pluginHas(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)(k, k.w.Conn(k.t, "c1")))
		req := k.asked()
		for _, v := range k.allAnswers(req, k.answered(req).GetVolumeId()) {
			require.Equal(k.t, "n1", k.placeOf(v))
		}
	}),
	"CSI-CTRL-Volume-09": with(contextNeverChanges),
}

// contextNeverChanges while a volume is used, grown and modified.
func contextNeverChanges(k *kit) {
	req := k.asked()
	v := k.answered(req)
	same := func() {
		k.t.Helper()
		for _, other := range k.allAnswers(req, v.GetVolumeId()) {
			require.Equal(k.t, v.GetVolumeContext(), other.GetVolumeContext())
		}
	}
	same()
	k.inUse(v, mounted(writer, "ext4"), false)
	same()
	k.done(func() error {
		_, err := k.ctl.ControllerExpandVolume(k.ctx, &csi.ControllerExpandVolumeRequest{VolumeId: v.GetVolumeId(), CapacityRange: &csi.CapacityRange{RequiredBytes: 32 * harness.Mi}})
		return err
	})
	same()
}

func (k *kit) deleted(req *csi.DeleteVolumeRequest) error {
	_, err := k.ctl.DeleteVolume(k.ctx, req)
	return err
}

var deleteVolumeRows = map[string]rowTest{
	"CSI-CTRL-DeleteVolume-01": alwaysServed(csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, func(k *kit, c csi.ControllerClient) error {
		id := k.made().GetVolumeId()
		_, err := c.DeleteVolume(k.ctx, &csi.DeleteVolumeRequest{VolumeId: id})
		require.Nil(k.t, k.listed(id))
		return err
	}),
	"CSI-CTRL-DeleteVolume-02": refuses(codes.InvalidArgument, func(k *kit) error { return k.deleted(&csi.DeleteVolumeRequest{}) }),
	"CSI-CTRL-DeleteVolume-03": with(func(k *kit) {
		id := k.made().GetVolumeId()
		for _, gone := range []string{id, id, unknownVolumeID, "x", "../..", "hf-", strings.Repeat("i", 128)} {
			require.NoError(k.t, k.deleted(&csi.DeleteVolumeRequest{VolumeId: gone}))
		}
		require.Nil(k.t, k.listed(id))
		images, err := k.w.Cluster.Images("n1")
		require.NoError(k.t, err)
		require.NotContains(k.t, images, id)
	}),
	"CSI-CTRL-DeleteVolume-05": with(snapshotsSurvive),
	"CSI-CTRL-DeleteVolume-07": with(func(k *kit) {
		v := k.made()
		u := k.inUse(v, mounted(writer, "ext4"), false)
		require.NoError(k.t, u.write("kept"))
		for range 2 {
			refused(k.t, k.deleted(&csi.DeleteVolumeRequest{VolumeId: v.GetVolumeId()}), codes.FailedPrecondition)
		}
		require.Equal(k.t, "kept", u.read())
		only := k.made().GetVolumeId()
		k.published(publication(only))
		refused(k.t, k.deleted(&csi.DeleteVolumeRequest{VolumeId: only}), codes.FailedPrecondition)
	}),
	"CSI-CTRL-DeleteVolume-08": with(func(k *kit) {
		for _, secrets := range []map[string]string{nil, {"user": "u"}} {
			id := k.made().GetVolumeId()
			require.NoError(k.t, k.deleted(&csi.DeleteVolumeRequest{VolumeId: id, Secrets: secrets}))
			require.Nil(k.t, k.listed(id))
		}
	}),
	"CSI-CTRL-DeleteVolume-10": with(snapshotsSurvive),
}

// snapshotsSurvive the volume that they were cut of.
func snapshotsSurvive(k *kit) {
	v := k.written("cut before the end")
	cut := k.snapshot(v.GetVolumeId())
	require.NoError(k.t, k.deleted(&csi.DeleteVolumeRequest{VolumeId: v.GetVolumeId()}))
	require.Equal(k.t, []string{cut.GetSnapshotId()}, k.cutsOf([]string{v.GetVolumeId()}))
	require.Equal(k.t, "cut before the end", k.inUse(k.made(ofSnapshot(cut.GetSnapshotId())), mounted(writer, "ext4"), false).read())
}
