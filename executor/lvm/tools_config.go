package lvm

import (
	"regexp"
	"strings"
)

// lvmConfig is the configuration of every lvm command. scan_lvs=0 keeps LVM from scanning volumes
// for a guest's volume group, the filter from scanning the devices on top of them. Monitoring is
// off: dmeventd must neither extend the pool nor unmount its filesystems. How full the pool may be
// is decided here, and not by LVM's autoextend threshold.
func lvmConfig(vg, filter string, udev bool) string {
	settings := []string{
		"devices/global_filter=" + globalFilter(vg, filter), "devices/scan_lvs=0",
		"backup/archive=0", "activation/monitoring=0", "activation/thin_pool_autoextend_threshold=100", "global/use_lvmpolld=0", "report/compact_output=0",
	}
	if !udev {
		settings = append(settings, "devices/obtain_device_list_from_udev=0", "activation/udev_sync=0", "activation/udev_rules=0")
	}
	return strings.Join(settings, " ")
}

var quoted = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)

// globalFilter is the host's own filter with our patterns before it. A final pattern that accepts
// everything is left out: it has no effect on other devices, but would accept a device by another
// of its names that our patterns do not reject.
func globalFilter(vg, own string) string {
	name := regexp.MustCompile(`[+.]`).ReplaceAllString(vg, "[$0]")
	patterns := []string{
		`"r|^/dev/drbd|"`, `"r|^/dev/loop|"`, `"r|^/dev/nbd|"`, `"r|^/dev/mapper/hfc-|"`, // the last: mappings of encrypted volumes
		`"r|^/dev/` + name + `/h[fs]-|"`, `"r|^/dev/mapper/` + strings.ReplaceAll(name, "-", "--") + `-h[fs]--|"`,
	}
	_, own, _ = strings.Cut(own, "=")
	theirs := quoted.FindAllString(own, -1)
	for len(theirs) > 0 && acceptsAll(theirs[len(theirs)-1]) {
		theirs = theirs[:len(theirs)-1]
	}
	return "[" + strings.Join(append(patterns, theirs...), ",") + "]"
}

func acceptsAll(pattern string) bool {
	inside := strings.Trim(pattern, `"`)
	if len(inside) < 3 || inside[0] != 'a' {
		return false
	}
	switch inside[2 : len(inside)-1] {
	case "", ".", ".*", "^.*", "^.*$", ".*$", "^/dev/", "^/dev/.*", "/dev/.*":
		return true
	}
	return false
}
