package conformance

import (
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// alphaRows are those of the older text of volume groups. Most say what the newer one does.
var alphaRows = map[string]rowTest{
	"ADD-VGA-Svc-01":     documented("## Volume groups", "Alpha: it may change, or go."),
	"ADD-VGA-Secrets-01": rowOf(groupSecretsAreHidden),

	"ADD-VGA-Create-01": ownSwitch("VOLUME_GROUP", "CreateVolumeGroup", "DeleteVolumeGroup"),
	"ADD-VGA-Delete-01": ownSwitch("VOLUME_GROUP", "CreateVolumeGroup", "DeleteVolumeGroup"),
	"ADD-VGA-Modify-01": ownSwitch("MODIFY_VOLUME_GROUP", "ModifyVolumeGroupMembership"),
	"ADD-VGA-Get-01":    ownSwitch("GET_VOLUME_GROUP", "ControllerGetVolumeGroup"),
	"ADD-VGA-List-01":   ownSwitch("LIST_VOLUME_GROUPS", "ListVolumeGroups"),

	"ADD-VGA-Create-02": volumeGroupRows["ADD-VG-Svc-01"],
	"ADD-VGA-Create-03": rowOf(func(k *fixture) {
		a := k.alpha()
		g := a.call("CreateVolumeGroup", map[string]string{"name": k.env.Name("set")})
		id := alphaField(g, "volume_group_id").String()
		k.dissolveLater(id)
		require.Zero(k.t, alphaField(g, "volumes").List().Len())
		k.requireMembers(k.getVolumeGroup("c1", id))
	}),
	"ADD-VGA-Create-04": rowOf(func(k *fixture) {
		documented("## Parameters", "`volumeGroup`")(k.t, k.env)
		req := &createGroupRequest{Name: k.env.Name("set")}
		g := k.volumeGroupFrom(req)
		one := k.createVolume(withParameter("volumeGroup", g.GetVolumeGroupId())).GetVolumeId()
		k.requireMembers(k.getVolumeGroup("c1", g.GetVolumeGroupId()), one)
		two := k.createVolume(withParameter("volumeGroup", req.GetName())).GetVolumeId()
		k.requireMembers(k.listedVolumeGroups()[g.GetVolumeGroupId()], one, two)
		k.untilOK(func() error { return k.modifyVolumeGroup(g.GetVolumeGroupId()) }) // its volumes are deleted first
	}),
	"ADD-VGA-Create-05": rowOf(func(k *fixture) {
		source := k.volume()
		g := k.volumeGroup(source.ID)
		restored := k.restore(k.snapshot(source.ID).GetSnapshotId())
		k.requireMembers(k.modifiedVolumeGroup(g.GetVolumeGroupId(), source.ID, restored.ID), source.ID, restored.ID)
		k.modifiedVolumeGroup(g.GetVolumeGroupId())
	}),
	"ADD-VGA-Create-06": volumeGroupRows["ADD-VG-Create-12"],
	"ADD-VGA-Create-07": volumeGroupRows["ADD-VG-Create-14"],
	"ADD-VGA-Create-09": volumeGroupRows["ADD-VG-Create-03"],

	"ADD-VGA-Volume-01": withMembers(func(k *fixture, made, member *csi.Volume) {
		require.GreaterOrEqual(k.t, member.GetCapacityBytes(), int64(0))
		require.Equal(k.t, made.GetCapacityBytes(), member.GetCapacityBytes())
	}),
	"ADD-VGA-Volume-02": withMembers(func(k *fixture, made, member *csi.Volume) {
		require.Equal(k.t, made.GetVolumeContext(), member.GetVolumeContext())
	}),
	"ADD-VGA-Volume-03": withMembers(func(k *fixture, made, member *csi.Volume) {
		constrained := pluginHas(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)(k, k.env.Conn(k.t, "c1"))
		require.Equal(k.t, constrained, len(member.GetAccessibleTopology()) > 0)
		require.Equal(k.t, "n1", k.nodeOf(member))
	}),
	"ADD-VGA-Volume-04": rowOf(func(k *fixture) {
		ids := k.volumes(3)
		told := volumeIDsOf(k.volumeGroup(ids...))
		require.NotContains(k.t, told, "")
		slices.Sort(told)
		require.Len(k.t, slices.Compact(told), len(ids))
	}),
	"ADD-VGA-Volume-05": rowOf(olderClientReads),
	"ADD-VGA-Volume-06": volumeGroupRows["ADD-VG-Create-10"],
	"ADD-VGA-Volume-07": rowOf(func(k *fixture) {
		const canary = "canary-90fe12-context"
		v := k.createVolume(func(r *createRequest) { r.Secrets = map[string]string{"password": canary} })
		g := k.volumeGroup(v.GetVolumeId())
		for _, told := range []*volumegroup.VolumeGroup{g, k.getVolumeGroup("c1", g.GetVolumeGroupId()), k.listedVolumeGroups()[g.GetVolumeGroupId()]} {
			require.Len(k.t, told.GetVolumes(), 1)
			require.NotContains(k.t, told.String(), canary)
		}
	}),

	"ADD-VGA-Delete-02": volumeGroupRows["ADD-VG-Delete-02"],
	"ADD-VGA-Delete-03": rowOf(func(k *fixture) {
		volumeGroupRows["ADD-VG-Delete-05"](k.t, k.env)
		deletionOfMembers(k)
	}),
	"ADD-VGA-Delete-04": volumeGroupRows["ADD-VG-Delete-06"],
	"ADD-VGA-Delete-06": volumeGroupRows["ADD-VG-Delete-03"],
	"ADD-VGA-Modify-02": membershipRows["ADD-VG-Modify-09"],
	"ADD-VGA-Modify-03": membershipRows["ADD-VG-Modify-10"],
	"ADD-VGA-Modify-04": membershipRows["ADD-VG-Modify-11"],
	"ADD-VGA-Modify-06": membershipRows["ADD-VG-Modify-06"],
	"ADD-VGA-Modify-07": membershipRows["ADD-VG-Modify-05"],
	"ADD-VGA-Get-02":    membershipRows["ADD-VG-Get-03"],
	"ADD-VGA-Get-04":    membershipRows["ADD-VG-Get-02"],
	"ADD-VGA-List-02":   membershipRows["ADD-VG-List-06"],
	"ADD-VGA-List-03":   membershipRows["ADD-VG-List-05"],
	"ADD-VGA-List-05":   membershipRows["ADD-VG-List-02"],
	"ADD-VGA-List-06":   membershipRows["ADD-VG-List-03"],
}

// ownSwitch makes a row of a capability that is disabled alone: exactly its calls are not served.
func ownSwitch(capability string, calls ...string) rowTest {
	return rowOf(func(k *fixture) {
		p := k.standaloneController("--disable-capability=" + capability)
		p.start()
		p.awaitProbe(true)
		conn := p.conn()
		for method, served := range k.servedAddons(conn) {
			if name, own := strings.CutPrefix(method, "volumegroup.Controller/"); own {
				require.Equal(k.t, !slices.Contains(calls, name), served, method)
			}
		}
		for name, value := range identity.Capability_VolumeGroup_Type_value {
			if call, gates := capabilityCalls[name]; gates {
				require.Equal(k.t, name != capability, addonsHas(groupCapability(identity.Capability_VolumeGroup_Type(value)))(k, conn), call)
			}
		}
	})
}

// capabilityCalls are the capabilities that gate calls.
var capabilityCalls = map[string]string{
	"VOLUME_GROUP": "CreateVolumeGroup", "MODIFY_VOLUME_GROUP": "ModifyVolumeGroupMembership", "GET_VOLUME_GROUP": "ControllerGetVolumeGroup", "LIST_VOLUME_GROUPS": "ListVolumeGroups",
}

// withMembers makes a row of what the calls of groups tell of a volume.
func withMembers(see func(k *fixture, made, member *csi.Volume)) rowTest {
	return rowOf(func(k *fixture) {
		made := k.createVolume()
		g := k.volumeGroup(made.GetVolumeId())
		id := g.GetVolumeGroupId()
		for _, told := range []*volumegroup.VolumeGroup{g, k.getVolumeGroup("c1", id), k.listedVolumeGroups()[id], k.modifiedVolumeGroup(id, made.GetVolumeId())} {
			require.Len(k.t, told.GetVolumes(), 1)
			see(k, made, told.GetVolumes()[0])
		}
	})
}

// olderClientReads: a client with the older messages finds in the answer what a newer one does, and nothing that it
// does not know.
func olderClientReads(k *fixture) {
	source := k.volumeWithText("text")
	restored := k.restore(k.snapshot(source.GetVolumeId()).GetSnapshotId())
	g := k.volumeGroup(restored.ID)
	told := k.alpha().call("ControllerGetVolumeGroup", map[string]string{"volume_group_id": g.GetVolumeGroupId()})
	require.Equal(k.t, g.GetVolumeGroupId(), alphaField(told, "volume_group_id").String())
	require.Equal(k.t, 1, alphaField(told, "volumes").List().Len())
	v := alphaField(told, "volumes").List().Get(0).Message()
	require.Empty(k.t, v.GetUnknown())
	require.Equal(k.t, restored.ID, alphaField(v, "volume_id").String())
	require.EqualValues(k.t, 16*harness.Mi, alphaField(v, "capacity_bytes").Int())
	snapshot := alphaField(alphaField(v, "content_source").Message(), "snapshot").Message()
	require.Equal(k.t, g.GetVolumes()[0].GetContentSource().GetSnapshot().GetSnapshotId(), alphaField(snapshot, "snapshot_id").String())
	topology := alphaField(v, "accessible_topology").List()
	require.Equal(k.t, 1, topology.Len())
	segments := alphaField(topology.Get(0).Message(), "segments").Map()
	for key, value := range g.GetVolumes()[0].GetAccessibleTopology()[0].GetSegments() {
		require.Equal(k.t, value, segments.Get(protoreflect.ValueOfString(key).MapKey()).String())
	}
}

// groupSecretsAreHidden sends a secret with every call of groups, well and badly.
func groupSecretsAreHidden(k *fixture) {
	const canary = "canary-c41d90-groups"
	id := k.volumeGroup(k.volume().ID).GetVolumeGroupId()
	for _, key := range []string{"password", "not allowed"} {
		secrets := map[string]string{key: canary}
		var errs []error
		_, err := k.volumeGroups.CreateVolumeGroup(k.ctx, &createGroupRequest{Name: "x", VolumeIds: []string{unknownVolumeID}, Secrets: secrets})
		errs = append(errs, err)
		_, err = k.volumeGroups.ModifyVolumeGroupMembership(k.ctx, &modifyGroupRequest{VolumeGroupId: id, VolumeIds: []string{unknownVolumeID}, Secrets: secrets})
		errs = append(errs, err)
		_, err = k.volumeGroups.DeleteVolumeGroup(k.ctx, &deleteGroupRequest{VolumeGroupId: unknownVolumeGroupID, Secrets: secrets})
		errs = append(errs, err)
		_, err = k.volumeGroups.ControllerGetVolumeGroup(k.ctx, &getGroupRequest{VolumeGroupId: id, Secrets: secrets})
		errs = append(errs, err)
		_, err = k.volumeGroups.ListVolumeGroups(k.ctx, &listGroupsRequest{Secrets: secrets})
		errs = append(errs, err)
		for _, err := range errs {
			require.NotContains(k.t, status.Convert(err).Message(), canary)
		}
	}
	k.requireNotOnDisk(canary)
}
