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
		"secrets":            {codes.OK: {func(r *createReq) { r.Secrets = mapOf("a", "c") }, func(r *createReq) { r.Secrets = nil }}},
		"capacity_range":     {codes.AlreadyExists: {withCapacity(2*gib, 0), withCapacity(0, gib/2)}, codes.OK: {withCapacity(gib/2, 3*gib)}},
		"parameters":         {codes.AlreadyExists: {withParameters(), withParameters("fsType", "ext4", "replicas", "1")}, codes.OK: {withParameters("fsType", "ext4", "csi.storage.k8s.io/pvc/name", "two")}},
		"mutable_parameters": {codes.AlreadyExists: {withMutable("iopsLimit", "11"), withMutable("bandwidthLimit", "1"), withMutable()}, codes.OK: {withMutable("iopsLimit", "10", "csi.storage.k8s.io/pvc/name", "two")}},
		"volume_content_source": {codes.AlreadyExists: {
			func(r *createReq) { r.VolumeContentSource = fromVolume(unknownID) }, func(r *createReq) { r.VolumeContentSource = fromSnapshot(unknownSnapshot) }}},
		"accessibility_requirements": {
			codes.AlreadyExists: {accessibleFrom([]*csi.Topology{topologyTerm(fsm.ZoneKey, "z2")}, nil)},
			codes.OK:            {accessibleFrom(nil, []*csi.Topology{topologyTerm(fsm.ZoneKey, "z2")}), accessibleFrom([]*csi.Topology{topologyTerm(fsm.ZoneKey, "z1")}, nil)}},
		"volume_capabilities":      {codes.AlreadyExists: {withCapabilities(mount(writer, "ext4", "noatime"), mount(reader, "ext4"))}, codes.OK: {withCapabilities(mount(writer, "ext4", "noatime"), mount(writer, "ext4", "noatime"))}},
		"access_type":              {codes.AlreadyExists: {withCapabilities(block(writer))}},
		"access_mode":              {codes.AlreadyExists: {withCapabilities(mount(multiWriter, "", "noatime"))}},
		"mount.fs_type":            {codes.OK: {withCapabilities(mount(writer, "", "noatime"))}, codes.AlreadyExists: {createChanges(withParameters("fsType", "xfs"), withCapabilities(mount(writer, "xfs", "noatime")))}},
		"mount.mount_flags":        {codes.AlreadyExists: {withCapabilities(mount(writer, "")), withCapabilities(mount(writer, "", "relatime"))}},
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
	base := createChanges(withCapacity(gib, 2*gib), withCapabilities(mount(writer, "ext4", "noatime")), withParameters("fsType", "ext4"), withMutable("iopsLimit", "10"),
		func(r *createReq) { r.Secrets = mapOf("a", "b") })
	for field, outcomes := range cases {
		for code, changes := range outcomes {
			for _, change := range changes {
				t.Run(field+" "+code.String(), func(t *testing.T) {
					w := newEnv(t)
					id := w.create(t, "v", base)
					for range 2 {
						again, err := w.CreateVolume(t.Context(), createRequest("v", base, change))
						requireCode(t, code, err)
						if code == codes.OK && field != "name" {
							require.Equal(t, id, again.GetVolume().GetVolumeId())
						}
						_, err = w.ControllerModifyVolume(t.Context(), &csi.ControllerModifyVolumeRequest{VolumeId: id, MutableParameters: mapOf("iopsLimit", "11")})
						require.NoError(t, err) // S73: what became of it since is no difference
					}
				})
			}
		}
	}
}

// A clone whose fs_type is left open has its source's, also when it is asked for again.
func TestRepeatedCloneWithoutAFilesystem(t *testing.T) {
	w := newEnv(t)
	source := w.create(t, "source", withCapabilities(mount(writer, "xfs")))
	clone := createChanges(func(r *createReq) { r.VolumeContentSource = fromVolume(source) }, withCapabilities(mount(writer, "")))
	first, err := w.CreateVolume(t.Context(), createRequest("clone", clone))
	require.NoError(t, err)
	for _, same := range []func(*createReq){func(*createReq) {}, withCapabilities(mount(writer, "xfs"))} {
		again, err := w.CreateVolume(t.Context(), createRequest("clone", clone, same))
		require.NoError(t, err)
		require.True(t, proto.Equal(first, again))
	}
	_, err = w.CreateVolume(t.Context(), createRequest("clone", clone, withCapabilities(mount(writer, "ext4"))))
	requireCode(t, codes.AlreadyExists, err)
	_, err = w.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: source})
	require.NoError(t, err)
	again, err := w.CreateVolume(t.Context(), createRequest("clone", clone))
	require.NoError(t, err, "its source is gone")
	require.True(t, proto.Equal(first, again))
}

// The names that the provisioner adds are kept, as the resizer's are, and no refusal.
func TestTheClaimIsKept(t *testing.T) {
	w := newEnv(t)
	id := w.create(t, "v", withParameters("csi.storage.k8s.io/pvc/name", "data", "csi.storage.k8s.io/pvc/namespace", "shop", "csi.storage.k8s.io/pv/name", "pvc-1"))
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
		_, err := w.ControllerModifyVolume(t.Context(), &csi.ControllerModifyVolumeRequest{VolumeId: id, MutableParameters: mapOf(
			"iopsLimit", "5", "csi.storage.k8s.io/pvc/name", "data2", "csi.storage.k8s.io/pvc/namespace", "shop", "csi.storage.k8s.io/pv/name", "pvc-1")})
		require.NoError(t, err)
		require.Equal(t, "data2", claim().Name)
	}
	require.EqualValues(t, 5, w.limits(t, id).ReadIOPS)
}
