package lvm

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
)

// The tags of what Holdfast owns.
const (
	tagOurs  = "holdfast"
	tagReady = "holdfast-ready"
	tagPool  = "holdfast-pool="
	tagSize  = "holdfast-size="
	// tagFrom marks what was created as a copy: only there may an unfinished volume hold data.
	tagFrom = "holdfast-from="
	// tagImport marks what was imported, with the volume and the former name; without tagOurs it is being imported.
	tagImport = "holdfast-import="
)

// The ends of the names that a Revert uses beside the volume's.
const (
	revertedSuffix = ".new" // what it made of the snapshot
	replacedSuffix = ".old" // what had the volume's name before
)

// ownerOf is the volume that a name belongs to, which may be one that a Revert uses.
func ownerOf(name string) fsm.VolumeID {
	for _, suffix := range []string{revertedSuffix, replacedSuffix} {
		if id, ok := strings.CutSuffix(name, suffix); ok {
			return fsm.VolumeID(id)
		}
	}
	return fsm.VolumeID(name)
}

// maxNameLength is how many characters namePattern has at most.
const maxNameLength = 63

var (
	namePattern = regexp.MustCompile(`^[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,62}$`)
	poolPattern = regexp.MustCompile(`^hp-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
)

// checkNames refuses names that LVM would parse as something else.
func checkNames(vg, pool string) error {
	for _, name := range []string{vg, pool} {
		if !namePattern.MatchString(name) || name == "." || name == ".." {
			return fmt.Errorf("%q is no name of a volume group or a thin pool", name)
		}
	}
	if fsm.VolumeID(pool).Valid() || fsm.SnapshotID(pool).Valid() {
		return fmt.Errorf("the thin pool %q is named like a volume", pool)
	}
	return nil
}

// dmName is the name of a logical volume, or of a layer of it, in the device mapper.
func dmName(parts ...string) string {
	doubled := make([]string, len(parts))
	for i, part := range parts {
		doubled[i] = strings.ReplaceAll(part, "-", "--")
	}
	return strings.Join(doubled, "-")
}

// layerSuffix is the end of the device-mapper name of the device on top of a volume.
const layerSuffix = "holdfast"

// layerUUID is the device-mapper UUID of the device on top, in the form of those that LVM gives
// its own layers.
func layerUUID(group, volume string) string {
	return "LVM-" + strings.ReplaceAll(group+volume, "-", "") + "-" + layerSuffix
}

// volumeUUID extracts the UUID that LVM gave a logical volume, without hyphens, from the UUID of
// its device: "LVM-", the group's and the volume's, 32 letters each.
func volumeUUID(device string) string {
	const prefix, length = "LVM-", 32
	if rest, ok := strings.CutPrefix(device, prefix); ok && len(rest) == 2*length {
		return rest[length:]
	}
	return ""
}

// sizeTag is the tag that records a volume's size in bytes.
func sizeTag(size int64) string { return tagSize + strconv.FormatInt(size, 10) }

func checkID(id fsm.VolumeID) error {
	if !id.Valid() {
		return fsm.Reject(fsm.NotFound, "%q is not a volume's id", string(id))
	}
	return nil
}

func checkSnapshotID(id fsm.SnapshotID) error {
	if !id.Valid() {
		return fsm.Reject(fsm.NotFound, "%q is not a snapshot's id", string(id))
	}
	return nil
}
