package hostcheck

import (
	"regexp"
	"strings"
)

// toolGroups are commands by what needs them.
var toolGroups = []struct {
	tools   []toolVersion
	purpose string
	needed  func(Wants) bool
}{
	{baseTools[:2], "a node", always},
	{baseTools[2:], "growing and checking filesystems", never},
	{thinTools, "thin pools", func(w Wants) bool { return w.ThinPool }},
	{drbdTools, "replicated volumes", func(w Wants) bool { return w.Replication }},
	{furtherTools[:1], "encrypted volumes", never},
	{furtherTools[1:], "who looks at the host by hand", never},
}

// optional are groups that matter only on a host that is configured for them, or not at all to Holdfast.
func optional(purpose string) bool {
	return purpose == "thin pools" || purpose == "replicated volumes" || purpose == "who looks at the host by hand"
}

func checkTools(f *Facts) (all []Finding) {
	if f.Tools == nil {
		return notGathered("which commands the host has")
	}
	for _, group := range toolGroups {
		for _, t := range group.tools {
			tool, known := f.Tools[t.name]
			switch {
			case !known:
			case tool.Path != "" && tool.Version != "":
				all = append(all, okf("%s is %s", tool.Path, tool.Version))
			case tool.Path != "":
				all = append(all, okf("%s is there", tool.Path))
			case group.needed(f.Wants):
				all = append(all, fail(installRemedy(tool.Err), "the command %s, for %s, is missing", t.name, group.purpose))
			case optional(group.purpose):
				all = append(all, okf("the command %s, for %s, is missing, and not needed here", t.name, group.purpose))
			default:
				all = append(all, warn(installRemedy(tool.Err), "the command %s, for %s, is missing", t.name, group.purpose))
			}
		}
	}
	return all
}

// packageName is the package that the error of a missing command names.
var packageName = regexp.MustCompile(`package (\S+)`)

func installRemedy(missing string) string {
	if m := packageName.FindStringSubmatch(missing); m != nil {
		return "run `apt-get install " + strings.Trim(m[1], "`'\".,;:)") + "`, or what that is on this host"
	}
	return "install it where the host keeps its commands"
}

// foreignDevices are devices whose content is a volume's, by the names that LVM would find them under.
var foreignDevices = []struct{ device, what string }{
	{"/dev/drbd1000", "replicated volumes"}, {"/dev/mapper/hfc-0", "encrypted volumes"}, {"/dev/loop7", "volumes of a pool of files"},
}

// checkLVM: the host's own LVM must not look into volumes. A pod that makes a volume group inside of its volume
// would have it activated on the host, which then cannot be unstaged; and two hosts would see it twice.
func checkLVM(f *Facts) []Finding {
	l := f.LVM
	switch {
	case l == nil && f.Tools["lvm"].Path != "":
		return notGathered("which devices LVM looks at")
	case l == nil || l.HostHasNone:
		return []Finding{okf("there is no LVM on this host that could look into volumes")}
	case l.Unseen:
		return []Finding{warn("mount the host's /etc/lvm into the node's pod; or see on the host that `lvmconfig --typeconfig full devices/global_filter` rejects /dev/drbd*, /dev/loop* and /dev/mapper/hfc-*",
			"which devices the host's LVM looks at is not seen in this container: a volume group that a workload made inside of its volume may keep the volume from being unstaged")}
	case l.Err != "":
		return []Finding{unknown("run `lvm lvmconfig --typeconfig full devices/global_filter`", "which devices LVM looks at could not be read: %s", l.Err)}
	case l.UseDevices:
		return l.checkDevicesFile()
	}
	return l.checkFilter()
}

func (l *LVM) checkDevicesFile() []Finding {
	for _, device := range l.Devices {
		name := strings.TrimPrefix(strings.TrimPrefix(device, "/dev/mapper/"), "/dev/")
		if ourDevice.MatchString(name) && !strings.HasPrefix(name, "loop") {
			return []Finding{fail("run `lvmdevices --deldev "+device+"`", "LVM's devices file lists %s, whose content is a volume's", device)}
		}
	}
	return append([]Finding{okf("LVM looks at the devices of its devices file only")}, l.scanFinding()...)
}

func (l *LVM) checkFilter() []Finding {
	var seen []string
	for _, d := range foreignDevices {
		accepted, err := l.accepts(d.device)
		if err != "" {
			return []Finding{unknown("set devices/global_filter in /etc/lvm/lvm.conf to patterns that reject /dev/drbd*, /dev/loop* and /dev/mapper/hfc-*", "LVM's filter has a pattern that could not be understood: %s", err)}
		}
		if accepted {
			seen = append(seen, d.what)
		}
	}
	if len(seen) == 0 {
		return append([]Finding{okf("LVM's filter keeps it from looking into volumes")}, l.scanFinding()...)
	}
	activates := ""
	if l.AutoActivate {
		activates = ", and activates what it finds"
	}
	found := warn("set `global_filter = [ \"r|^/dev/drbd|\", \"r|^/dev/loop|\", \"r|^/dev/mapper/hfc-|\" ]` in the devices section of /etc/lvm/lvm.conf",
		"LVM looks for volume groups inside of %s%s: one that a workload made there keeps its volume from being unstaged", strings.Join(seen, " and "), activates)
	return append([]Finding{found}, l.scanFinding()...)
}

func (l *LVM) scanFinding() []Finding {
	if !l.ScanLVs {
		return nil
	}
	return []Finding{warn("set `scan_lvs = 0` in the devices section of /etc/lvm/lvm.conf", "LVM looks for volume groups inside of logical volumes, also those of volumes")}
}

// accepts applies both filters as LVM does: the first pattern that matches decides, and none accepts. problem is a
// pattern that is none.
func (l *LVM) accepts(device string) (accepted bool, problem string) {
	for _, filter := range [][]string{l.GlobalFilter, l.Filter} {
		for _, pattern := range filter {
			matched, accept, ok := matchPattern(pattern, device)
			if !ok {
				return false, pattern
			}
			if matched && !accept {
				return false, ""
			}
			if matched {
				break
			}
		}
	}
	return true, ""
}

// matchPattern reads a pattern like r|^/dev/drbd|, with any separator.
func matchPattern(pattern, device string) (matched, accept, ok bool) {
	if len(pattern) < 3 || pattern[0] != 'a' && pattern[0] != 'r' {
		return false, false, false
	}
	body := pattern[2:]
	end := strings.TrimSuffix(body, closing(pattern[1]))
	expression, err := regexp.Compile(end)
	if err != nil || end == body {
		return false, false, false
	}
	return expression.MatchString(device), pattern[0] == 'a', true
}

// closing is the separator that ends a pattern.
func closing(opening byte) string {
	switch opening {
	case '(':
		return ")"
	case '[':
		return "]"
	case '{':
		return "}"
	}
	return string(opening)
}
