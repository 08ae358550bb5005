package identity

import "github.com/csi-addons/spec/lib/go/identity"

// Service is a capability of that kind.
func Service(t identity.Capability_Service_Type) *identity.Capability {
	return &identity.Capability{Type: &identity.Capability_Service_{Service: &identity.Capability_Service{Type: t}}}
}

// ReclaimSpace is a capability of that kind.
func ReclaimSpace(t identity.Capability_ReclaimSpace_Type) *identity.Capability {
	return &identity.Capability{Type: &identity.Capability_ReclaimSpace_{ReclaimSpace: &identity.Capability_ReclaimSpace{Type: t}}}
}

// NetworkFence is a capability of that kind.
func NetworkFence(t identity.Capability_NetworkFence_Type) *identity.Capability {
	return &identity.Capability{Type: &identity.Capability_NetworkFence_{NetworkFence: &identity.Capability_NetworkFence{Type: t}}}
}

// VolumeGroup is a capability of that kind.
func VolumeGroup(t identity.Capability_VolumeGroup_Type) *identity.Capability {
	return &identity.Capability{Type: &identity.Capability_VolumeGroup_{VolumeGroup: &identity.Capability_VolumeGroup{Type: t}}}
}

// VolumeReplication is a capability of that kind.
func VolumeReplication(t identity.Capability_VolumeReplication_Type) *identity.Capability {
	return &identity.Capability{Type: &identity.Capability_VolumeReplication_{VolumeReplication: &identity.Capability_VolumeReplication{Type: t}}}
}

// EncryptionKeyRotation is a capability of that kind.
func EncryptionKeyRotation(t identity.Capability_EncryptionKeyRotation_Type) *identity.Capability {
	return &identity.Capability{Type: &identity.Capability_EncryptionKeyRotation_{EncryptionKeyRotation: &identity.Capability_EncryptionKeyRotation{Type: t}}}
}

// Name is a capability's name in the specification, without its kind.
func Name(c *identity.Capability) string {
	switch k := c.GetType().(type) {
	case *identity.Capability_Service_:
		return k.Service.GetType().String()
	case *identity.Capability_ReclaimSpace_:
		return k.ReclaimSpace.GetType().String()
	case *identity.Capability_NetworkFence_:
		return k.NetworkFence.GetType().String()
	case *identity.Capability_VolumeReplication_:
		return k.VolumeReplication.GetType().String()
	case *identity.Capability_VolumeGroup_:
		return k.VolumeGroup.GetType().String()
	case *identity.Capability_EncryptionKeyRotation_:
		return k.EncryptionKeyRotation.GetType().String()
	}
	return ""
}
