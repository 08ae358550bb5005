package hostcheck

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// toolVersion is how a command says its version; nil: it is not asked.
type toolVersion struct {
	name string
	args []string
	both bool // it prints its version to stderr
}

// The commands that a node needs always, for a thin pool, for replication, and those without which it cannot do
// some of its work.
var (
	baseTools = []toolVersion{
		{name: "mkfs.ext4", args: []string{"-V"}, both: true}, {name: "mkfs.xfs", args: []string{"-V"}}, {name: "e2fsck", args: []string{"-V"}, both: true}, {name: "resize2fs"}, {name: "tune2fs"}, {name: "xfs_repair", args: []string{"-V"}},
	}
	thinTools    = []toolVersion{{name: "lvm", args: []string{"version"}}, {name: "dmsetup", args: []string{"version"}}, {name: "thin_check", args: []string{"-V"}}, {name: "thin_dump", args: []string{"-V"}}, {name: "thin_ls", args: []string{"-V"}}}
	drbdTools    = []toolVersion{{name: "drbdadm", args: []string{"--version"}}, {name: "drbdsetup"}, {name: "drbdmeta"}}
	furtherTools = []toolVersion{{name: "cryptsetup", args: []string{"--version"}}, {name: "losetup", args: []string{"--version"}}, {name: "modprobe", args: []string{"--version"}}}
)

// toolsOf are the commands that are looked for.
func toolsOf(role Role) []toolVersion {
	if role != Node {
		return nil
	}
	return slices.Concat(baseTools, thinTools, drbdTools, furtherTools)
}

func (g *Gatherer) tools(ctx context.Context) map[string]Tool {
	found := map[string]Tool{}
	for _, t := range toolsOf(g.Role) {
		found[t.name] = g.tool(ctx, t)
	}
	return found
}

func (g *Gatherer) tool(ctx context.Context, t toolVersion) Tool {
	path, err := g.LookPath(t.name)
	if err != nil {
		return Tool{Err: err.Error()}
	}
	found := Tool{Path: path}
	if t.args == nil {
		return found
	}
	run := g.Run
	if t.both {
		run = g.RunBoth
	}
	if out, err := run(ctx, t.name, t.args...); err == nil {
		found.Version = versionIn(out)
	}
	return found
}

var versionPattern = regexp.MustCompile(`\d+\.\d+[-.\w]*`)

// drbdVersion is the line of the version among those that drbdadm prints.
var drbdVersion = regexp.MustCompile(`(?m)^DRBDADM_VERSION=(\S+)$`)

// versionIn is the first version that a command printed.
func versionIn(out string) string {
	if m := drbdVersion.FindStringSubmatch(out); m != nil {
		return m[1]
	}
	return versionPattern.FindString(out)
}

// lvm reads how the host's own LVM commands, which know nothing of Holdfast, look at devices.
func (g *Gatherer) lvm(ctx context.Context) *LVM {
	if _, err := g.LookPath("lvm"); err != nil {
		return nil // nothing scans
	}
	if l := g.containersLVM(); l != nil {
		return l
	}
	out, err := g.Run(ctx, "lvm", "lvmconfig", "--typeconfig", "full",
		"devices/global_filter", "devices/filter", "devices/use_devicesfile", "devices/devicesfile", "devices/scan_lvs", "global/event_activation")
	if err != nil {
		return &LVM{Err: err.Error()}
	}
	values := lvmValues(out)
	l := &LVM{
		GlobalFilter: quotedStrings(values["global_filter"]), Filter: quotedStrings(values["filter"]),
		ScanLVs: values["scan_lvs"] == "1", AutoActivate: values["event_activation"] == "1",
	}
	name := strings.Trim(values["devicesfile"], `"`)
	if name != "" && values["use_devicesfile"] == "1" && g.exists("etc/lvm/devices/"+name) {
		l.UseDevices = true
		l.Devices = listedDevices(g.text("etc/lvm/devices/" + name))
	}
	return l
}

// lvmValues reads lines of the form name=value.
func lvmValues(out string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(out) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			values[name] = value
		}
	}
	return values
}

var quotedPattern = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)

func quotedStrings(list string) (all []string) {
	for _, m := range quotedPattern.FindAllStringSubmatch(list, -1) {
		all = append(all, m[1])
	}
	return all
}

var devName = regexp.MustCompile(`(?:^|\s)DEVNAME=(\S+)`)

// listedDevices are the names in a devices file.
func listedDevices(text string) (names []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		if m := devName.FindStringSubmatch(line); m != nil && m[1] != "." {
			names = append(names, m[1])
		}
	}
	return names
}

// noVolumes keeps the queries from opening volumes: a device that is open can be neither demoted nor removed.
const noVolumes = `devices/global_filter=["r|^/dev/drbd|","r|^/dev/loop|","r|^/dev/nbd|","r|^/dev/mapper/hfc-|"]`

// thinPools asks LVM how full the pools are.
func (g *Gatherer) thinPools(ctx context.Context) (all []ThinPool) {
	for _, name := range g.Config.ThinPools {
		all = append(all, g.thinPool(ctx, name[0], name[1]))
	}
	return all
}

func (g *Gatherer) thinPool(ctx context.Context, vg, name string) ThinPool {
	p := ThinPool{VG: vg, Name: name}
	groups, err := g.Run(ctx, "lvm", "vgs", "--config", noVolumes, "--noheadings", "-o", "vg_name")
	if err != nil {
		p.Err = err.Error()
		return p
	}
	if p.NoVG = !slices.Contains(strings.Fields(groups), vg); p.NoVG {
		return p
	}
	out, err := g.Run(ctx, "lvm", "lvs", "--config", noVolumes, "--noheadings", "--separator", "|", "-o", "lv_name,data_percent,metadata_percent", vg)
	if err != nil {
		p.Err = err.Error()
		return p
	}
	p.NoPool = true
	for line := range strings.Lines(out) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 3 || cells[0] != name {
			continue
		}
		p.NoPool = false
		var err1, err2 error
		p.Data, err1 = strconv.ParseFloat(cells[1], 64)
		p.Meta, err2 = strconv.ParseFloat(cells[2], 64)
		p.Checked = err1 == nil && err2 == nil
	}
	return p
}
