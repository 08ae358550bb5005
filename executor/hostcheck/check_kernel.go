package hostcheck

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func checkRoot(f *Facts) []Finding {
	if f.UID != 0 {
		return []Finding{fail("run the node, and this command, as root", "the process runs as user %d, and cannot make devices and mounts", f.UID)}
	}
	return nil
}

// moduleNeed is what a module is for, and whether the node does not start without it.
type moduleNeed struct {
	name, purpose string
	needed        func(Wants) bool
}

func always(Wants) bool { return true }
func never(Wants) bool  { return false }

var moduleNeeds = []moduleNeed{
	{"loop", "the pool of files", func(w Wants) bool { return w.FilePool }},
	{"dm_mod", "thin pools", func(w Wants) bool { return w.ThinPool }},
	{"dm_thin_pool", "thin pools", func(w Wants) bool { return w.ThinPool }},
	{"drbd", "replicated volumes", func(w Wants) bool { return w.Replication }},
	{"ext4", "volumes with ext4", never},
	{"xfs", "volumes with xfs", never},
	{"dm_crypt", "encrypted volumes", never},
}

func checkModules(f *Facts) (all []Finding) {
	if f.Modules == nil {
		return notGathered("which modules the kernel has")
	}
	for _, need := range moduleNeeds {
		m, known := f.Modules[need.name]
		if !known {
			continue
		}
		all = append(all, need.check(m, f))
	}
	return all
}

func (n moduleNeed) check(m Module, f *Facts) Finding {
	version := ""
	if m.Version != "" {
		version = " " + m.Version
	}
	load := fmt.Sprintf("run `modprobe %s`, and name it in /etc/modules-load.d/holdfast.conf", n.name)
	install := "install the kernel's package of modules, then " + load
	unlisted := load + "; in a pod, mount the host's /lib/modules"
	switch needed := n.needed(f.Wants); {
	case m.Loaded:
		return okf("the module %s%s is loaded", n.name, version)
	case m.Available && needed && m.Beside && f.SignedOnly:
		return n.unsignedModule(f)
	case m.Available && needed && n.name == "loop": // the others are loaded when they are needed
		return fail(load, "the module %s, for %s, is not loaded", n.name, n.purpose)
	case m.Available:
		return okf("the module %s can be loaded when it is needed", n.name)
	case m.Unlisted && needed:
		return unknown(unlisted, "the module %s, for %s, is not loaded, and this kernel's list of modules could not be read", n.name, n.purpose)
	case m.Unlisted:
		return okf("the module %s is not loaded, and this kernel's list of modules could not be read", n.name)
	case needed:
		return fail(install, "the kernel %s has no module %s, which %s need", f.Kernel, n.name, n.purpose)
	case n.name == "drbd" || n.name == "dm_thin_pool" || n.name == "loop" || n.name == "dm_mod":
		return okf("the kernel has no module %s, which this host is not configured to need", n.name)
	}
	return warn(install, "the kernel %s has no module %s: %s cannot be staged here", f.Kernel, n.name, n.purpose)
}

// checkDRBD judges the module's version and its helper, which must be drbdadm for a primary without its peer to ask
// the log (S13).
func checkDRBD(f *Facts) (all []Finding) {
	if !f.Wants.Replication {
		return nil
	}
	switch d := f.DRBD; {
	case d == nil:
		return notGathered("how the kernel's DRBD is set")
	case d.Version == "":
		return nil // the rule of modules says so
	default:
		return append(checkDRBDVersion(d.Version), d.checkHelper())
	}
}

func checkDRBDVersion(version string) []Finding {
	first, _, _ := strings.Cut(version, ".")
	major, err := strconv.Atoi(first)
	if err != nil || major < 9 && !strings.HasPrefix(version, "8.4.") {
		return []Finding{fail("install drbd-dkms 9, or a kernel with DRBD 8.4", "the kernel's DRBD is %q, and 8.4 or 9 is needed", version)}
	}
	return []Finding{okf("the kernel's DRBD is %s", version)}
}

func (d *DRBD) checkHelper() Finding {
	const remedy = "run `echo /usr/sbin/drbdadm > /sys/module/drbd/parameters/usermode_helper`, and set it in /etc/modprobe.d/drbd.conf"
	helper, known := d.Parameters["usermode_helper"]
	switch {
	case !known:
		return unknown("look at /sys/module/drbd/parameters", "which helper DRBD calls could not be read")
	case helper == "disabled":
		return fail(remedy+"; where the host does not let you, keep no replicas there: leave out --replication-address",
			"the kernel's helper for DRBD is disabled on this host: no handler would be called, and it can keep no replicas")
	case !filepath.IsAbs(helper) || filepath.Base(helper) != "drbdadm":
		return fail(remedy, "the kernel's helper for DRBD is %q, not drbdadm: no handler would be called, and a primary that lost its peer would stay suspended", helper)
	case d.HelperErr != "":
		return fail("install drbd-utils on the host itself, not only in the container", "the kernel cannot run the helper %s for DRBD: %s", helper, d.HelperErr)
	}
	return okf("DRBD calls %s", helper)
}

func checkUdev(f *Facts) []Finding {
	switch {
	case f.Udev == nil:
		return notGathered("whether udev runs")
	case f.Udev.Running:
		return []Finding{okf("udev manages devices here")}
	case f.Wants.ThinPool:
		return []Finding{warn("mount /run/udev of the host into the container, and give it the host's IPC namespace",
			"no udev is seen here: Holdfast makes the nodes of LVM's devices itself, and other programs of the host may not see them")}
	}
	return []Finding{okf("no udev is seen here, which a pool of files does not need")}
}

func checkMultipath(f *Facts) []Finding {
	m := f.Multipath
	switch {
	case m == nil:
		return notGathered("whether multipath uses devices of volumes")
	case len(m.Claims) > 0:
		claims := slices.Sorted(slices.Values(m.Claims))
		return []Finding{fail("put `devnode \"^(drbd|loop|dm-)\"` into the blacklist of /etc/multipath.conf and run `multipath -f` for each",
			"multipath holds devices of volumes, which can then be neither promoted, grown nor removed: %s", strings.Join(slices.Compact(claims), ", "))}
	case m.Running:
		return []Finding{okf("multipathd runs and holds no device of a volume")}
	}
	return []Finding{okf("multipath does not run")}
}

func checkCgroup(f *Facts) []Finding {
	c := f.Cgroup
	switch {
	case c == nil:
		return notGathered("which control groups the host has")
	case c.Version == 2 && c.IO:
		return []Finding{okf("cgroup v2 bounds I/O")}
	case c.Version == 1 && c.IO && f.Wants.IOCgroup:
		return []Finding{okf("cgroup v1 bounds I/O, of the group that --io-cgroup names")}
	case c.Version == 1 && c.IO:
		return []Finding{warn("boot with systemd.unified_cgroup_hierarchy=1, or name the workloads' group with --io-cgroup",
			"the host has cgroup v1, where volumes' I/O limits are put in force for a named group only")}
	case c.Version == 2:
		return []Finding{warn("boot with `cgroup_enable=io`, or let systemd delegate the io controller (IOAccounting=yes)",
			"cgroup v2 has no io controller here: volumes' I/O limits are not put in force")}
	}
	return []Finding{warn("mount the host's /sys/fs/cgroup into the container", "no control groups are seen here: volumes' I/O limits are not put in force")}
}
