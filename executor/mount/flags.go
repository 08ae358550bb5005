package mount

import (
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/fsm"
)

// options are mount flags that were allowed.
type options struct {
	readOnly   bool
	perMount   uint64   // MOUNT_ATTR_* beside nosuid and nodev
	superblock []string // for fsconfig
}

// perMount are the flags of one mount.
var perMount = map[string]uint64{
	"noatime":    unix.MOUNT_ATTR_NOATIME,
	"relatime":   unix.MOUNT_ATTR_RELATIME,
	"nodiratime": unix.MOUNT_ATTR_NODIRATIME,
	"noexec":     unix.MOUNT_ATTR_NOEXEC,
	"nosuid":     0, // always
	"nodev":      0, // always
	"rw":         0, // unless the publication is read-only
	"defaults":   0,
	"async":      0,
}

// superblock are the flags of the whole filesystem, by type; "" is every type.
var superblock = map[string]map[string]bool{
	"":     {"sync": true, "dirsync": true, "lazytime": true, "discard": true},
	"ext4": {"nodiscard": true, "errors=remount-ro": true},
	"xfs":  {"nodiscard": true, "inode64": true, "largeio": true},
}

// parseFlags allows the flags that can do no harm to the host; without a type,
// those of any. One that it does
// not know is not repeated in the error: a flag may hold a secret.
func parseFlags(fsType string, flags []string) (options, error) {
	var o options
	for _, flag := range flags {
		attribute, known := perMount[flag]
		switch {
		case known:
			o.perMount |= attribute
		case flag == "ro":
			o.readOnly = true
		case superblock[""][flag], superblock[fsType][flag], fsType == "" && (superblock["ext4"][flag] || superblock["xfs"][flag]):
			o.superblock = append(o.superblock, flag)
		default:
			return options{}, fsm.Reject(fsm.Invalid, "a mount flag is not one that is allowed for %q", fsType)
		}
	}
	return o, nil
}

// attributes are those of a staging mount.
func (o options) attributes() uint64 {
	attributes := o.perMount | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	if o.readOnly {
		attributes |= unix.MOUNT_ATTR_RDONLY
	}
	return attributes
}
