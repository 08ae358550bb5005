package csiconv

import (
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ParseCapability reads a capability. The rejection is fsm.Invalid when it is missing or
// malformed, and when its filesystem is not served. FSType stays empty where the caller
// left it open. Whether the mode is served is checked by CheckAccessMode.
func ParseCapability(c *csi.VolumeCapability) (fsm.Capability, error) {
	parsed, err := DecodeCapability(c)
	if err != nil {
		return parsed, err
	}
	return parsed, CheckFSType(parsed.FSType)
}

// CheckFSType is fsm.Invalid for a filesystem that hosts cannot make.
func CheckFSType(fsType string) error {
	if fsType == "" || fsm.KnownFSType(fsType) {
		return nil
	}
	return fsm.Reject(fsm.Invalid, "fs_type %q is not served, only %s", Message(fsType), strings.Join(fsm.FSTypes(), " and "))
}

// DecodeCapability reads a capability, also one that is not served. The rejection is
// fsm.Invalid when it is missing or malformed.
func DecodeCapability(c *csi.VolumeCapability) (fsm.Capability, error) {
	if c == nil {
		return fsm.Capability{}, fsm.Reject(fsm.Invalid, "volume_capability is required")
	}
	mode, err := DecodeAccessMode(c)
	parsed := fsm.Capability{Mode: mode}
	if err != nil {
		return parsed, err
	}
	switch access := c.GetAccessType().(type) {
	case *csi.VolumeCapability_Block:
		parsed.Block = true
	case *csi.VolumeCapability_Mount:
		return parseMount(parsed, access.Mount)
	default:
		return parsed, fsm.Reject(fsm.Invalid, "the access_type of a volume capability is missing: it is either block or mount")
	}
	return parsed, nil
}

// DecodeAccessMode reads the mode of a capability. The rejection is fsm.Invalid when it is missing or unknown.
func DecodeAccessMode(c *csi.VolumeCapability) (fsmpb.AccessMode, error) {
	mode := fsmpb.AccessMode(c.GetAccessMode().GetMode())
	_, known := csi.VolumeCapability_AccessMode_Mode_name[int32(mode)]
	if !known || mode == fsmpb.AccessMode_ACCESS_MODE_UNKNOWN {
		return mode, fsm.Reject(fsm.Invalid, "the access_mode of a volume capability is missing or unknown")
	}
	return mode, nil
}

func parseMount(parsed fsm.Capability, mount *csi.VolumeCapability_MountVolume) (fsm.Capability, error) {
	parsed.FSType = mount.GetFsType()
	if err := checkMountGroup(mount.GetVolumeMountGroup()); err != nil {
		return parsed, err
	}
	if flags := mount.GetMountFlags(); len(flags) > 0 {
		parsed.Flags = Fingerprint(flags...)
	}
	return parsed, nil
}

// checkMountGroup: a mount group is a group id in decimal. It is for the mount alone and
// no part of what a volume can be used for.
func checkMountGroup(group string) error {
	if group == "" {
		return nil
	}
	if _, err := strconv.ParseUint(group, 10, 31); err != nil {
		return fsm.Reject(fsm.Invalid, "volume_mount_group is not a group id")
	}
	return nil
}

// CheckAccessMode tells whether one host can serve an access mode; reason is the
// rejection's when it cannot: INVALID_ARGUMENT for a caller that describes a volume,
// FAILED_PRECONDITION for one that uses it.
func CheckAccessMode(mode fsmpb.AccessMode, reason fsm.Reason) error {
	if fsm.AccessModeServed(mode) {
		return nil
	}
	return fsm.Reject(reason, "access mode %s is not served: the data of a volume is on one host",
		csi.VolumeCapability_AccessMode_Mode(mode))
}
