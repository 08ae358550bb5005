package fsm

import (
	"slices"
	"strings"
)

// MountPolicy is which mount flags are served beside the usual ones: set-user-id
// programs and device nodes on a volume act on the host, so that only an operator
// allows them.
type MountPolicy struct{ Suid, Dev bool }

// mountFlags are the mount flags that are served, by filesystem; "" is every one. nosuid and
// nodev, which every mount has, may be requested too.
var mountFlags = map[string][]string{
	"": {"async", "defaults", "dirsync", "discard", "lazytime", "noatime", "nodev", "nodiratime", "noexec", "nosuid",
		"relatime", "ro", "rw", "sync"},
	"ext4": {"errors=remount-ro", "nodiscard"},
	"xfs":  {"inode64", "largeio", "nodiscard", "prjquota"},
}

// contextFlag is the SELinux label of all files of a mount.
const contextFlag = "context"

// mountOptions are names of options that are not secret: they stand in manual pages.
var mountOptions = func() map[string]bool {
	known := map[string]bool{}
	for _, name := range strings.Fields(`
		async atime noatime auto noauto defaults dev nodev diratime nodiratime dirsync exec noexec group iversion noiversion
		mand nomand _netdev nofail relatime norelatime strictatime nostrictatime lazytime nolazytime suid nosuid silent loud
		owner remount ro rw sync user nouser users bind rbind symfollow nosymfollow discard nodiscard quota noquota usrquota
		grpquota prjquota context fscontext defcontext rootcontext barrier nobarrier acl noacl user_xattr nouser_xattr
		uid gid umask dmask fmask mode size vers nfsvers nolock hard soft
		journal_checksum nojournal_checksum journal_async_commit journal_dev journal_path norecovery noload data data_err
		commit bsddf minixdf check debug errors grpid bsdgroups nogrpid sysvgroups resgid resuid sb nouid32 usrjquota
		grpjquota jqfmt inode_readahead_blks stripe delalloc nodelalloc max_batch_time min_batch_time journal_ioprio abort
		auto_da_alloc noauto_da_alloc init_itable noinit_itable dioread_nolock dioread_lock max_dir_size_kb i_version dax
		block_validity noblock_validity nombcache mb_optimize_scan
		allocsize attr2 noattr2 filestreams ikeep noikeep inode32 inode64 largeio nolargeio logbufs logbsize logdev noalign
		nouuid uquota uqnoenforce qnoenforce gquota gqnoenforce pquota pqnoenforce rtdev sunit swidth swalloc wsync
		osyncisdsync`) {
		known[name] = true
	}
	return known
}()

// Check refuses the first flag that is not served for the filesystem; where that is
// left open, for any. The rejection (Invalid) names it and those that are served. What
// is no option of any filesystem is not repeated, only its place: it may be a secret.
func (p MountPolicy) Check(fsType string, flags []string) *Rejection {
	for i, flag := range flags {
		switch name, _, _ := strings.Cut(flag, "="); {
		case p.serves(fsType, flag):
		case flag == "suid" || flag == "dev":
			return Reject(Invalid, "mount flag %q is not allowed: start the controllers and the nodes with --allow-mount-flag=%s", flag, flag)
		case name == contextFlag:
			return Reject(Invalid, "mount flag %q needs an SELinux label as its value, user:role:type:level", name)
		case mountOptions[name]:
			return Reject(Invalid, "mount flag %q is not served for %s: there are %s", name, orAny(fsType), p.served(fsType))
		default:
			return Reject(Invalid, "mount flag %d of %d is no option that is known, and is not repeated as it may be a secret; for %s there are %s",
				i+1, len(flags), orAny(fsType), p.served(fsType))
		}
	}
	return nil
}

func (p MountPolicy) serves(fsType, flag string) bool {
	if _, ok := MountContext(flag); ok || p.Suid && flag == "suid" || p.Dev && flag == "dev" {
		return true
	}
	return slices.ContainsFunc(mountTypes(fsType), func(t string) bool { return slices.Contains(mountFlags[t], flag) })
}

// served lists the flags for a message.
func (p MountPolicy) served(fsType string) string {
	all := []string{contextFlag + "=LABEL"}
	for _, t := range mountTypes(fsType) {
		all = append(all, mountFlags[t]...)
	}
	if p.Suid {
		all = append(all, "suid")
	}
	if p.Dev {
		all = append(all, "dev")
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

func mountTypes(fsType string) []string {
	if fsType == "" {
		return []string{"", "ext4", "xfs"}
	}
	return []string{"", fsType}
}

func orAny(fsType string) string {
	if fsType == "" {
		return "any filesystem"
	}
	return fsType
}

// MountContext is the SELinux label that a flag asks for, without its quotes.
func MountContext(flag string) (label string, ok bool) {
	value, found := strings.CutPrefix(flag, contextFlag+"=")
	if inner, quoted := strings.CutPrefix(value, `"`); quoted {
		if value, quoted = strings.CutSuffix(inner, `"`); !quoted {
			return "", false
		}
	}
	notAllowed := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_.:,-", r)
	}
	ok = found && len(value) <= maxIDBytes && strings.Count(value, ":") >= 2 && !strings.ContainsFunc(value, notAllowed)
	return value, ok
}

// PlainMountFlag tells whether a flag is one that stands in a list of options, and so
// is nobody's secret.
func PlainMountFlag(flag string) bool {
	return mountOptions[flag] || slices.ContainsFunc(mountTypes(""), func(t string) bool { return slices.Contains(mountFlags[t], flag) })
}
