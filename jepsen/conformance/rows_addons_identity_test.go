package conformance

import (
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var addonsIdentityRows = map[string]rowTest{
	"ADD-ID-Svc-01": rowOf(func(k *fixture) {
		for _, p := range k.addonsProcesses() {
			for _, method := range []string{"GetIdentity", "GetCapabilities", "Probe"} {
				_, err := k.callAddons(p.conn, "identity.Identity/"+method, newMessage(k, identity.File_identity_identity_proto.Services().Get(0).Methods().ByName(protoreflect.Name(method)).Input()))
				k.requireCode(method+" at "+p.name, err, codes.OK)
			}
		}
	}),
	"ADD-ID-GetIdentity-01": withIdentity(func(k *fixture, info *csi.GetPluginInfoResponse, res *identity.GetIdentityResponse) {
		require.Equal(k.t, info.GetName(), res.GetName())
		require.LessOrEqual(k.t, len(res.GetName()), 63)
		require.Regexp(k.t, `^[A-Za-z]([-.A-Za-z0-9]*[A-Za-z])?$`, res.GetName())
	}),
	"ADD-ID-GetIdentity-02": withIdentity(func(k *fixture, info *csi.GetPluginInfoResponse, res *identity.GetIdentityResponse) {
		require.NotEmpty(k.t, res.GetVendorVersion())
		require.Equal(k.t, info.GetVendorVersion(), res.GetVendorVersion())
	}),

	"ADD-ID-GetCapabilities-01": advertisedIffAny(serviceCapability(identity.Capability_Service_CONTROLLER_SERVICE), false),
	"ADD-ID-GetCapabilities-02": advertisedIffAny(serviceCapability(identity.Capability_Service_NODE_SERVICE), true),
	"ADD-ID-GetCapabilities-03": advertisedIffServed(reclaimCapability(identity.Capability_ReclaimSpace_OFFLINE), onControllers, "reclaimspace.ReclaimSpaceController/ControllerReclaimSpace"),
	"ADD-ID-GetCapabilities-04": advertisedIffServed(reclaimCapability(identity.Capability_ReclaimSpace_ONLINE), onNodes, "reclaimspace.ReclaimSpaceNode/NodeReclaimSpace"),
	"ADD-ID-GetCapabilities-05": advertisedIffServed(replicationCapability, onControllers, replicationMethods...),
	"ADD-ID-GetCapabilities-06": advertisedIffServed(groupCapability(identity.Capability_VolumeGroup_VOLUME_GROUP), onControllers,
		"volumegroup.Controller/CreateVolumeGroup", "volumegroup.Controller/DeleteVolumeGroup"),
	"ADD-ID-GetCapabilities-07": rowOf(func(k *fixture) {
		limited := addonsHas(groupCapability(identity.Capability_VolumeGroup_LIMIT_VOLUME_TO_ONE_VOLUME_GROUP))
		for _, p := range k.addonsProcesses() {
			require.Equal(k.t, onControllers(p), limited(k, p.conn), p.name)
		}
		_, _, err := incompatible(k)
		require.Error(k.t, err)
	}),
	"ADD-ID-GetCapabilities-08": rowOf(func(k *fixture) {
		keeps := addonsHas(groupCapability(identity.Capability_VolumeGroup_DO_NOT_ALLOW_VG_TO_DELETE_VOLUMES))
		for _, p := range k.addonsProcesses() {
			require.False(k.t, keeps(k, p.conn), p.name)
		}
		deletionOfMembers(k)
	}),
	"ADD-ID-GetCapabilities-09": advertisedIffServed(groupCapability(identity.Capability_VolumeGroup_MODIFY_VOLUME_GROUP), onControllers, "volumegroup.Controller/ModifyVolumeGroupMembership"),
	"ADD-ID-GetCapabilities-10": advertisedIffServed(groupCapability(identity.Capability_VolumeGroup_GET_VOLUME_GROUP), onControllers, "volumegroup.Controller/ControllerGetVolumeGroup"),
	"ADD-ID-GetCapabilities-11": advertisedIffServed(groupCapability(identity.Capability_VolumeGroup_LIST_VOLUME_GROUPS), onControllers, "volumegroup.Controller/ListVolumeGroups"),
	"ADD-ID-GetCapabilities-12": advertisedIffServed(fenceCapability(identity.Capability_NetworkFence_NETWORK_FENCE), onControllers,
		"fence.FenceController/FenceClusterNetwork", "fence.FenceController/UnfenceClusterNetwork", "fence.FenceController/ListClusterFence"),
	"ADD-ID-GetCapabilities-13": advertisedIffServed(rotationCapability, onNodes, "encryptionkeyrotation.EncryptionKeyRotationController/EncryptionKeyRotate"),

	"ADD-ID-Probe-03": rowOf(func(k *fixture) {
		documented("## Probe", "FAILED_PRECONDITION", "ready=false", "Its limit")(k.t, k.env)
		documented("## CSI-Addons", "Probe has the readiness of CSI's Probe")(k.t, k.env)
	}),
}

// addonsProbeRows spoil the pool of n2.
var addonsProbeRows = map[string]rowTest{
	"ADD-ID-Probe-01": rowOf(func(k *fixture) {
		for _, id := range everyone {
			k.awaitReady(id, k.addonsReady(k.env.Conn(k.t, id)))
		}
		p := k.waiting()
		p.awaitProbe(false)
		res, err := k.addonsProbe(p.conn())
		require.NoError(k.t, err)
		require.NotNil(k.t, res.GetReady(), "a plugin that says nothing counts as ready")
		require.False(k.t, res.GetReady().GetValue())
		unhealthyAddons(k)
	}),
	"ADD-ID-Probe-02": rowOf(unhealthyAddons),
}

var replicationMethods = []string{
	"replication.Controller/EnableVolumeReplication", "replication.Controller/DisableVolumeReplication", "replication.Controller/PromoteVolume",
	"replication.Controller/DemoteVolume", "replication.Controller/ResyncVolume", "replication.Controller/GetVolumeReplicationInfo",
}

// withIdentity makes a row of what CSI and CSI-Addons say of each process.
func withIdentity(see func(k *fixture, info *csi.GetPluginInfoResponse, res *identity.GetIdentityResponse)) rowTest {
	return rowOf(func(k *fixture) {
		for _, id := range everyone {
			info, err := k.identity(id).GetPluginInfo(k.ctx, &csi.GetPluginInfoRequest{})
			require.NoError(k.t, err, id)
			res, err := identity.NewIdentityClient(k.env.Conn(k.t, id)).GetIdentity(k.ctx, &identity.GetIdentityRequest{})
			require.NoError(k.t, err, id)
			see(k, info, res)
		}
	})
}

func (k *fixture) addonsProbe(conn *grpc.ClientConn) (*identity.ProbeResponse, error) {
	return identity.NewIdentityClient(conn).Probe(k.ctx, &identity.ProbeRequest{})
}

// addonsReady asks with the Probe of CSI-Addons.
func (k *fixture) addonsReady(conn *grpc.ClientConn) func() (*wrapperspb.BoolValue, error) {
	return func() (*wrapperspb.BoolValue, error) {
		res, err := k.addonsProbe(conn)
		return res.GetReady(), err
	}
}

// unhealthyAddons: while the pool of n2 is missing, Probe of CSI-Addons fails as CSI's does.
func unhealthyAddons(k *fixture) {
	conn := k.env.Conn(k.t, "n2")
	k.whilePoolBroken(func(path string) error {
		if err := os.Rename(path, path+".away"); err != nil {
			return err
		}
		for range 2 {
			res, err := k.addonsProbe(conn)
			requireRefused(k.t, err, codes.FailedPrecondition)
			require.Nil(k.t, res)
		}
		return nil
	})
	k.awaitReady("n2", k.addonsReady(conn))
}
