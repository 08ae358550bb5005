package controller_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
)

// S73, CSI-CTRL-CreateVolume-02..06, -33..37, CSI-EXT-Modify-09: each field that a
// request can have, and what another value of it means for a volume that has the name.
func TestEveryFieldOfTheCompatibilityCheck(t *testing.T) {
	type change = func(*createReq)
	cases := map[string]map[codes.Code][]change{
		"name":               {codes.OK: {func(r *createReq) { r.Name = "another, and so another volume" }}},
		"secrets":            {codes.OK: {func(r *createReq) { r.Secrets = pairsOf("a", "c") }, func(r *createReq) { r.Secrets = nil }}},
		"capacity_range":     {codes.AlreadyExists: {capacity(2*gib, 0), capacity(0, gib/2)}, codes.OK: {capacity(gib/2, 3*gib)}},
		"parameters":         {codes.AlreadyExists: {with(), with("fsType", "ext4", "replicas", "1")}, codes.OK: {with("fsType", "ext4", "csi.storage.k8s.io/pvc/name", "two")}},
		"mutable_parameters": {codes.AlreadyExists: {mutable("iopsLimit", "11"), mutable("bandwidthLimit", "1"), mutable()}, codes.OK: {mutable("iopsLimit", "10", "csi.storage.k8s.io/pvc/name", "two")}},
		"volume_content_source": {codes.AlreadyExists: {
			func(r *createReq) { r.VolumeContentSource = fromVolume(unknownID) }, func(r *createReq) { r.VolumeContentSource = fromSnapshot(unknownSnapshot) }}},
		"accessibility_requirements": {
			codes.AlreadyExists: {where([]*csi.Topology{term(fsm.ZoneKey, "z2")}, nil)},
			codes.OK:            {where(nil, []*csi.Topology{term(fsm.ZoneKey, "z2")}), where([]*csi.Topology{term(fsm.ZoneKey, "z1")}, nil)}},
		"volume_capabilities":      {codes.AlreadyExists: {forUse(mount(writer, "ext4", "noatime"), mount(reader, "ext4"))}, codes.OK: {forUse(mount(writer, "ext4", "noatime"), mount(writer, "ext4", "noatime"))}},
		"access_type":              {codes.AlreadyExists: {forUse(block(writer))}},
		"access_mode":              {codes.AlreadyExists: {forUse(mount(multiWriter, "", "noatime"))}},
		"mount.fs_type":            {codes.OK: {forUse(mount(writer, "", "noatime"))}, codes.AlreadyExists: {both(with("fsType", "xfs"), forUse(mount(writer, "xfs", "noatime")))}},
		"mount.mount_flags":        {codes.AlreadyExists: {forUse(mount(writer, "")), forUse(mount(writer, "", "relatime"))}},
		"mount.volume_mount_group": {codes.OK: {func(r *createReq) { r.VolumeCapabilities[0].GetMount().VolumeMountGroup = "7" }}},
	}
	fields := (&createReq{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		require.Contains(t, cases, string(fields.Get(i).Name()))
	}
	inside := (&csi.VolumeCapability_MountVolume{}).ProtoReflect().Descriptor().Fields()
	for i := range inside.Len() {
		require.Contains(t, cases, "mount."+string(inside.Get(i).Name()))
	}
	base := both(capacity(gib, 2*gib), forUse(mount(writer, "ext4", "noatime")), with("fsType", "ext4"), mutable("iopsLimit", "10"),
		func(r *createReq) { r.Secrets = pairsOf("a", "b") })
	for field, outcomes := range cases {
		for code, changes := range outcomes {
			for _, change := range changes {
				t.Run(field+" "+code.String(), func(t *testing.T) {
					w := newWorld(t)
					id := w.create(t, "v", base)
					for range 2 {
						again, err := w.CreateVolume(t.Context(), named("v", base, change))
						requireCode(t, code, err)
						if code == codes.OK && field != "name" {
							require.Equal(t, id, again.GetVolume().GetVolumeId())
						}
						_, err = w.ControllerModifyVolume(t.Context(), &csi.ControllerModifyVolumeRequest{VolumeId: id, MutableParameters: pairsOf("iopsLimit", "11")})
						require.NoError(t, err) // S73: what became of it since is no difference
					}
				})
			}
		}
	}
}

// A clone whose fs_type is left open has its source's, also when it is asked for again.
func TestACloneAskedForAgainWithoutAFilesystem(t *testing.T) {
	w := newWorld(t)
	source := w.create(t, "source", forUse(mount(writer, "xfs")))
	clone := both(func(r *createReq) { r.VolumeContentSource = fromVolume(source) }, forUse(mount(writer, "")))
	first, err := w.CreateVolume(t.Context(), named("clone", clone))
	require.NoError(t, err)
	for _, same := range []func(*createReq){func(*createReq) {}, forUse(mount(writer, "xfs"))} {
		again, err := w.CreateVolume(t.Context(), named("clone", clone, same))
		require.NoError(t, err)
		require.True(t, proto.Equal(first, again))
	}
	_, err = w.CreateVolume(t.Context(), named("clone", clone, forUse(mount(writer, "ext4"))))
	requireCode(t, codes.AlreadyExists, err)
	_, err = w.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: source})
	require.NoError(t, err)
	again, err := w.CreateVolume(t.Context(), named("clone", clone))
	require.NoError(t, err, "its source is gone")
	require.True(t, proto.Equal(first, again))
}

// The names that the provisioner adds are kept, as the resizer's are, and no refusal.
func TestTheClaimIsKept(t *testing.T) {
	w := newWorld(t)
	id := w.create(t, "v", with("csi.storage.k8s.io/pvc/name", "data", "csi.storage.k8s.io/pvc/namespace", "shop", "csi.storage.k8s.io/pv/name", "pvc-1"))
	claim := func() (c *fsm.Claim) {
		require.NoError(t, w.cluster.View(func(s *fsm.State) error {
			v, _ := s.Volume(fsm.VolumeID(id))
			c = v.Claim
			return nil
		}))
		return c
	}
	require.Equal(t, &fsm.Claim{Name: "data", Namespace: "shop", Volume: "pvc-1"}, claim())
	for range 2 {
		_, err := w.ControllerModifyVolume(t.Context(), &csi.ControllerModifyVolumeRequest{VolumeId: id, MutableParameters: pairsOf(
			"iopsLimit", "5", "csi.storage.k8s.io/pvc/name", "data2", "csi.storage.k8s.io/pvc/namespace", "shop", "csi.storage.k8s.io/pv/name", "pvc-1")})
		require.NoError(t, err)
		require.Equal(t, "data2", claim().Name)
	}
	require.EqualValues(t, 5, w.limits(t, id).ReadIOPS)
}
