package fsm

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// DefaultFSType is what a mount capability without a filesystem means.
const DefaultFSType = "ext4"

// FSTypes are the filesystems that hosts can make.
func FSTypes() []string { return []string{"ext4", "xfs"} }

// KnownFSType tells whether hosts can make that filesystem.
func KnownFSType(name string) bool { return slices.Contains(FSTypes(), name) }

// ReadOnlyMode tells whether an access mode by itself allows no writing.
func ReadOnlyMode(mode fsmpb.AccessMode) bool {
	return mode == fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_READER_ONLY ||
		mode == fsmpb.AccessMode_ACCESS_MODE_MULTI_NODE_READER_ONLY
}

// AccessModeServed tells whether one host can serve the access mode.
func AccessModeServed(mode fsmpb.AccessMode) bool {
	switch mode {
	case fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER,
		fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_READER_ONLY,
		fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_SINGLE_WRITER,
		fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_MULTI_WRITER:
		return true
	}
	return false
}

// sharedFSType interns the common names.
func sharedFSType(name string) string {
	switch name {
	case "ext4":
		return "ext4"
	case "xfs":
		return "xfs"
	}
	return name
}

func (c Capability) compare(o Capability) int {
	return cmp.Or(cmp.Compare(c.Mode, o.Mode), compareBool(c.Block, o.Block), cmp.Compare(c.FSType, o.FSType), cmp.Compare(c.Flags, o.Flags))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// requestedCapabilities reads what a volume is created with: sorted, each once. A
// mount without a filesystem means the usual one.
func requestedCapabilities(requested []*fsmpb.Capability, fallback string) ([]Capability, *Rejection) {
	if len(requested) == 0 {
		return nil, Reject(Invalid, "a volume needs at least one capability")
	}
	all := make([]Capability, 0, len(requested))
	for _, a := range requested {
		c := CapabilityFrom(a)
		if rej := c.check(); rej != nil {
			return nil, rej
		}
		if !c.Block {
			c.FSType = cmp.Or(c.FSType, fallback)
		}
		all = append(all, c)
	}
	if len(all) > 1 {
		slices.SortFunc(all, Capability.compare)
		all = slices.Compact(all)
	}
	return all, oneFilesystem(all)
}

// check refuses a capability that no volume can have.
func (c Capability) check() *Rejection {
	switch {
	case len(c.Flags) > 2*maxFingerprintBytes:
		return Reject(Invalid, "the fingerprint of the mount flags has more than %d bytes", maxFingerprintBytes)
	case !AccessModeServed(c.Mode):
		return Reject(Invalid, "access mode %s: a volume is served by one node here, ask for a SINGLE_NODE mode", c.Mode)
	case c.Block && c.FSType != "":
		return Reject(Invalid, "a block capability has no filesystem, %q was asked for", c.FSType)
	case !c.Block && c.FSType != "" && !KnownFSType(c.FSType):
		return Reject(Invalid, "filesystem %q is not served: ask for ext4 or xfs", c.FSType)
	}
	return nil
}

// Combines tells whether callers may ask for one volume with both capabilities: for filesystems
// of one type, where one that is left open equals the others, or for raw use. The first use of
// the volume decides for ever (S15).
func (c Capability) Combines(o Capability) bool {
	return c.Block == o.Block && (c.FSType == "" || o.FSType == "" || c.FSType == o.FSType)
}

// oneFilesystem refuses capabilities of which one use would exclude another: a
// volume is formatted at most once (S15).
func oneFilesystem(all []Capability) *Rejection {
	fs := ""
	for _, c := range all {
		if c.Block {
			continue
		}
		if fs != "" && fs != c.FSType {
			return Reject(Invalid, "a volume has one filesystem: %s and %s were asked for", fs, c.FSType)
		}
		fs = c.FSType
	}
	return nil
}

// Supports tells whether the volume can be used so: with an access type that it
// was created with, and an access mode that such a capability covers. Mount flags
// are free. A mount capability without a filesystem means the volume's.
func (v *Volume) Supports(requested Capability) bool {
	return slices.ContainsFunc(v.Capabilities, func(own Capability) bool {
		return own.Block == requested.Block && covers(own.Mode, requested.Mode) &&
			(requested.Block || requested.FSType == "" || own.FSType == requested.FSType)
	})
}

// covers: a volume for one writer may be read only, never the other way.
func covers(own, requested fsmpb.AccessMode) bool {
	switch own {
	case requested:
		return true
	case fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_MULTI_WRITER:
		return AccessModeServed(requested)
	case fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_SINGLE_WRITER:
		return requested == fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_READER_ONLY
	}
	return false
}

// FSType is the filesystem that the volume has, or that it is to get; empty when it is
// only used raw.
func (v *Volume) FSType() string { return cmp.Or(v.Format.FSType, fsTypeOf(v.Capabilities)) }

// asUsed is a capability with the filesystem that the volume has.
func (v *Volume) asUsed(c *fsmpb.Capability) Capability {
	requested := CapabilityFrom(c)
	if requested.Block || requested.FSType != "" {
		return requested
	}
	for _, own := range v.Capabilities {
		if !own.Block {
			requested.FSType = own.FSType
		}
	}
	return requested
}
