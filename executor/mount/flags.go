package mount

import (
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/fsm"
)

// options are validated mount flags.
type options struct {
	readOnly   bool
	perMount   uint64 // MOUNT_ATTR_* to set
	suid, dev  bool
	fsSettings []fsSetting // options for fsconfig
}

// fsSetting is an option of a filesystem; one without a value is a flag.
type fsSetting struct{ key, value string }

// perMount are the flags that apply to one mount.
var perMount = map[string]uint64{
	"noatime":    unix.MOUNT_ATTR_NOATIME,
	"relatime":   unix.MOUNT_ATTR_RELATIME,
	"nodiratime": unix.MOUNT_ATTR_NODIRATIME,
	"noexec":     unix.MOUNT_ATTR_NOEXEC,
	"nosuid":     unix.MOUNT_ATTR_NOSUID,
	"nodev":      unix.MOUNT_ATTR_NODEV,
	"rw":         0, // unless the publication is read-only
	"defaults":   0,
	"async":      0,
}

// parseFlags accepts the flags that the policy allows; without a filesystem type, those of any
// type.
func parseFlags(policy fsm.MountPolicy, fsType string, flags []string) (options, error) {
	var o options
	if rej := policy.Check(fsType, flags); rej != nil {
		return o, rej
	}
	for _, flag := range flags {
		attribute, known := perMount[flag]
		label, labelled := fsm.MountContext(flag)
		switch {
		case known:
			o.perMount |= attribute
		case flag == "ro":
			o.readOnly = true
		case flag == "suid":
			o.suid = true
		case flag == "dev":
			o.dev = true
		case labelled:
			o.fsSettings = append(o.fsSettings, fsSetting{"context", label})
		case flag == "errors=remount-ro":
			o.fsSettings = append(o.fsSettings, fsSetting{"errors", "remount-ro"})
		default:
			o.fsSettings = append(o.fsSettings, fsSetting{key: flag})
		}
	}
	return o, nil
}

// mountAttributes are the attributes that every mount gets unless its flags ask for the opposite:
// the content of a volume is not trusted.
func (o options) mountAttributes() uint64 {
	attributes := o.perMount
	if !o.suid {
		attributes |= unix.MOUNT_ATTR_NOSUID
	}
	if !o.dev {
		attributes |= unix.MOUNT_ATTR_NODEV
	}
	if o.readOnly {
		attributes |= unix.MOUNT_ATTR_RDONLY
	}
	return attributes
}
