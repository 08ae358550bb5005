package node

import (
	rotationspec "github.com/csi-addons/spec/lib/go/encryptionkeyrotation"
	addonsfencespec "github.com/csi-addons/spec/lib/go/fence"
	addonsspec "github.com/csi-addons/spec/lib/go/identity"
	reclaimspec "github.com/csi-addons/spec/lib/go/reclaimspace"

	"github.com/holdfast-storage/holdfast/addons/encryption"
	addonsfence "github.com/holdfast-storage/holdfast/addons/fence"
	addonsidentity "github.com/holdfast-storage/holdfast/addons/identity"
	"github.com/holdfast-storage/holdfast/addons/params"
	"github.com/holdfast-storage/holdfast/addons/reclaimspace"
	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/csi/identity"
	"github.com/holdfast-storage/holdfast/fsm"
)

// openAddons registers the nodes' services of CSI-Addons on the CSI socket, and advertises exactly those.
func (n *node) openAddons(csi *identity.Server, disabled daemon.Disabled) {
	addonsfencespec.RegisterFenceControllerServer(n.csi, addonsfence.NewNode(addonsfence.Host{
		Node: fsm.NodeID(n.id), Host: n.components.host.ID, Site: n.site, Addresses: n.hostAddresses,
	}, disabled.Addons...))
	served := append(n.openReclaimSpace(disabled), n.openKeyRotation(disabled)...)
	served = append(served, disabled.Enabled(addonsidentity.NetworkFence(addonsspec.Capability_NetworkFence_GET_CLIENTS_TO_FENCE))...)
	if len(served) > 0 {
		served = append(served, addonsidentity.Service(addonsspec.Capability_Service_NODE_SERVICE))
	}
	addonsspec.RegisterIdentityServer(n.csi, addonsidentity.New(addonsidentity.Config{
		Version: daemon.Version(), CSI: csi, Capabilities: served, Manifest: map[string]string{params.Site: n.site},
	}))
}

// openKeyRotation registers EncryptionKeyRotation for volumes that are staged here.
func (n *node) openKeyRotation(disabled daemon.Disabled) []*addonsspec.Capability {
	served := disabled.Enabled(addonsidentity.EncryptionKeyRotation(addonsspec.Capability_EncryptionKeyRotation_ENCRYPTIONKEYROTATION))
	if len(served) > 0 {
		rotationspec.RegisterEncryptionKeyRotationControllerServer(n.csi, encryption.New(n.executor, n.site))
	}
	return served
}

// openReclaimSpace registers ReclaimSpace for volumes that are staged here.
func (n *node) openReclaimSpace(disabled daemon.Disabled) []*addonsspec.Capability {
	served := disabled.Enabled(addonsidentity.ReclaimSpace(addonsspec.Capability_ReclaimSpace_ONLINE))
	if len(served) > 0 {
		reclaimspec.RegisterReclaimSpaceNodeServer(n.csi, reclaimspace.NewNode(n.executor))
	}
	return served
}
