package hostcheck

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// modulesOf are the kernel's modules that each role needs, or can use.
var modulesOf = map[Role][]string{Node: {"loop", "xfs", "ext4", "dm_mod", "dm_thin_pool", "dm_crypt", "drbd"}}

// modules looks at modules without loading any.
func (g *Gatherer) modules(release string) map[string]Module {
	found := map[string]Module{}
	for _, name := range modulesOf[g.Role] {
		found[name] = g.module(release, name)
	}
	return found
}

func (g *Gatherer) module(release, name string) Module {
	m := Module{Version: g.word("sys/module/" + name + "/version")}
	builtin, dep := g.text("lib/modules/"+release+"/modules.builtin"), g.text("lib/modules/"+release+"/modules.dep")
	m.Loaded = g.exists("sys/module/"+name) || listsModule(builtin, name) || slices.Contains(g.filesystems(), name) || g.hasDevice(name)
	m.Available = m.Loaded || listsModule(dep, name)
	m.Beside = builtBeside(dep, name)
	m.Unlisted = !m.Loaded && dep == ""
	return m
}

// listsModule looks for a module in modules.dep or modules.builtin, whose names may have either sort of dash.
func listsModule(list, name string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(name), "_", "[-_]")
	return regexp.MustCompile(`(?m)(^|/)` + pattern + `\.ko[.a-z0-9]*(:|$)`).MatchString(list)
}

func (g *Gatherer) filesystems() (names []string) {
	for line := range strings.Lines(g.text("proc/filesystems")) {
		if fields := strings.Fields(line); len(fields) > 0 {
			names = append(names, fields[len(fields)-1])
		}
	}
	return names
}

// hasDevice finds a driver that is built in and has no folder in sysfs.
func (g *Gatherer) hasDevice(module string) bool {
	switch module {
	case "loop":
		return g.exists("dev/loop-control")
	case "dm_mod":
		return g.exists("dev/mapper/control")
	}
	return false
}

func (g *Gatherer) udev() *Udev { return &Udev{Running: g.exists("run/udev/control")} }

// drbd reads the module's version and settings.
func (g *Gatherer) drbd() *DRBD {
	d := &DRBD{Version: g.word("sys/module/drbd/version"), Parameters: map[string]string{}}
	files, err := os.ReadDir(g.path("sys/module/drbd/parameters"))
	if err != nil {
		return d // it is not loaded
	}
	for _, file := range files {
		d.Parameters[file.Name()] = g.word("sys/module/drbd/parameters/" + file.Name())
	}
	if helper := d.Parameters["usermode_helper"]; filepath.IsAbs(helper) {
		// The kernel runs it in the root of the first process, not in a container's.
		if info, err := os.Stat(g.path("proc/1/root" + helper)); err != nil {
			d.HelperErr = "it is not on the host's own root"
		} else if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
			d.HelperErr = "it is no program"
		}
	}
	return d
}

func (g *Gatherer) cgroup() *Cgroup {
	if controllers, err := os.ReadFile(g.path("sys/fs/cgroup/cgroup.controllers")); err == nil {
		return &Cgroup{Version: 2, IO: slices.Contains(strings.Fields(string(controllers)), "io")}
	}
	if g.exists("sys/fs/cgroup/blkio") {
		return &Cgroup{Version: 1, IO: true}
	}
	if g.exists("sys/fs/cgroup/cpu") || g.exists("sys/fs/cgroup/unified") {
		return &Cgroup{Version: 1}
	}
	return &Cgroup{}
}

// timeDaemons are files that exist while a daemon sets the clock.
var timeDaemons = []struct{ file, name string }{
	{"run/chrony/chronyd.pid", "chronyd"}, {"run/chronyd.pid", "chronyd"}, {"run/systemd/timesync/synchronized", "systemd-timesyncd"},
	{"run/ntpd.pid", "ntpd"}, {"var/run/ntpd.pid", "ntpd"}, {"run/ntpsec.pid", "ntpd"},
}

func (g *Gatherer) clock() *Clock {
	c, err := g.Adjtime()
	if err != nil {
		c.Err = err.Error()
	}
	for _, d := range timeDaemons {
		if c.Daemon == "" && g.exists(d.file) {
			c.Daemon = d.name
		}
	}
	return &c
}

// ourDevice tells whether a block device, by its kernel's or its device mapper's name, is Holdfast's or below a
// volume: hf-, hs- and hfc- begin the names of volumes, snapshots and mappings, in LVM's spelling behind a
// volume group.
var ourDevice = regexp.MustCompile(`^(drbd\d+|loop\d+|hfc-.*|.*-h[fs]--.*)$`)

// multipath looks in sysfs for multipath devices that lie on devices of ours.
func (g *Gatherer) multipath() *Multipath {
	m := &Multipath{Running: g.multipathRuns()}
	blocks, err := os.ReadDir(g.path("sys/block"))
	if err != nil {
		return m
	}
	for _, block := range blocks {
		dir := "sys/block/" + block.Name()
		if !strings.HasPrefix(g.word(dir+"/dm/uuid"), "mpath-") {
			continue
		}
		slaves, err := os.ReadDir(g.path(dir + "/slaves"))
		if err != nil {
			continue
		}
		for _, slave := range slaves {
			name := slave.Name()
			if mapped := g.word("sys/block/" + name + "/dm/name"); mapped != "" {
				name = mapped
			}
			if ourDevice.MatchString(name) {
				m.Claims = append(m.Claims, name)
			}
		}
	}
	return m
}
