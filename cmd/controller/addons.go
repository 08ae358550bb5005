package controller

import (
	addonsfencespec "github.com/csi-addons/spec/lib/go/fence"
	addonsspec "github.com/csi-addons/spec/lib/go/identity"
	reclaimspec "github.com/csi-addons/spec/lib/go/reclaimspace"
	replicationspec "github.com/csi-addons/spec/lib/go/replication"
	groupspec "github.com/csi-addons/spec/lib/go/volumegroup"

	addonsfence "github.com/holdfast-storage/holdfast/addons/fence"
	addonsidentity "github.com/holdfast-storage/holdfast/addons/identity"
	"github.com/holdfast-storage/holdfast/addons/params"
	"github.com/holdfast-storage/holdfast/addons/reclaimspace"
	"github.com/holdfast-storage/holdfast/addons/replication"
	"github.com/holdfast-storage/holdfast/addons/volumegroup"
	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/csi/identity"
)

// openAddons registers the controllers' services of CSI-Addons on the CSI socket, and advertises
// exactly those.
func (c *controller) openAddons(csi *identity.Server, cluster csiCluster, disabled daemon.Disabled) {
	addonsfencespec.RegisterFenceControllerServer(c.csi, addonsfence.New(cluster, disabled.Addons...))
	served := append(c.openVolumeGroups(cluster, disabled), c.openReclaimSpace(cluster, disabled)...)
	served = append(served, c.openReplication(cluster, disabled)...)
	served = append(served, disabled.Enabled(
		addonsidentity.NetworkFence(addonsspec.Capability_NetworkFence_NETWORK_FENCE),
		addonsidentity.NetworkFence(addonsspec.Capability_NetworkFence_GET_CLIENTS_TO_FENCE),
	)...)
	if len(served) > 0 {
		served = append(served, addonsidentity.Service(addonsspec.Capability_Service_CONTROLLER_SERVICE))
	}
	addonsspec.RegisterIdentityServer(c.csi, addonsidentity.New(addonsidentity.Config{
		Version: daemon.Version(), CSI: csi, Capabilities: served, Manifest: map[string]string{params.Site: c.site},
	}))
}

// openReclaimSpace registers ReclaimSpace for volumes that are not published.
func (c *controller) openReclaimSpace(state csiCluster, disabled daemon.Disabled) []*addonsspec.Capability {
	served := disabled.Enabled(addonsidentity.ReclaimSpace(addonsspec.Capability_ReclaimSpace_OFFLINE))
	if len(served) > 0 {
		reclaimspec.RegisterReclaimSpaceControllerServer(c.csi, reclaimspace.NewController(state, c.members))
	}
	return served
}

// openReplication registers the service of replication between sites, whose RPCs are UNIMPLEMENTED where it is disabled.
func (c *controller) openReplication(state csiCluster, disabled daemon.Disabled) []*addonsspec.Capability {
	options := replication.Options{NodeTimeout: c.nodeTimeout, Disabled: disabled.Addons}
	replicationspec.RegisterControllerServer(c.csi, replication.New(state, c.members, options))
	return disabled.Enabled(addonsidentity.VolumeReplication(addonsspec.Capability_VolumeReplication_VOLUME_REPLICATION))
}

// openVolumeGroups registers the service of volume groups, whose RPCs are UNIMPLEMENTED where they are
// disabled.
func (c *controller) openVolumeGroups(state csiCluster, disabled daemon.Disabled) (served []*addonsspec.Capability) {
	options := volumegroup.Options{MaxVolumes: c.groups.maxVolumes, KeepVolumes: c.groups.keepsVolumes(), Disabled: disabled.Addons}
	groupspec.RegisterControllerServer(c.csi, volumegroup.New(state, options))
	for _, capability := range options.Capabilities() {
		served = append(served, addonsidentity.VolumeGroup(capability))
	}
	return served
}
