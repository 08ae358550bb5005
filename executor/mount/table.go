package mount

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
)

// mountTable is mountinfo of /proc.
type mountTable []mountEntry

type mountEntry struct{ *mountinfo.Info }

// number is that of the filesystem.
func (l mountEntry) number() uint64 { return unix.Mkdev(uint32(l.Major), uint32(l.Minor)) }

func readTable() (mountTable, error) {
	lines, err := readTableOf("/proc/self")
	if err != nil {
		return nil, fmt.Errorf("read the kernel's table of mounts: %w", err)
	}
	return lines, nil
}

// readTableOf returns the mounts that a process or thread can reach, by its folder in /proc.
func readTableOf(folder string) (mountTable, error) {
	text, err := os.ReadFile(folder + "/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseTable(text)
}

func parseTable(text []byte) (mountTable, error) {
	var short bytes.Buffer
	for line := range bytes.Lines(text) {
		short.Write(shorten(line))
	}
	infos, err := mountinfo.GetMountsFromReader(&short, nil)
	if err != nil {
		return nil, err
	}
	lines := make(mountTable, len(infos))
	for i, info := range infos {
		lines[i] = mountEntry{info}
	}
	return lines, nil
}

// maxTableLine is a line that what parses the table still takes. Whoever may mount an overlay can make a longer one, by its many layers.
const maxTableLine = bufio.MaxScanTokenSize / 2

// shorten leaves the layers that an overlay only reads out of a line that is too long.
func shorten(line []byte) []byte {
	at := bytes.LastIndexByte(line, ' ') + 1
	if len(line) <= maxTableLine || at == 0 {
		return line
	}
	options := slices.DeleteFunc(strings.Split(string(line[at:]), ","), func(option string) bool { return strings.HasPrefix(option, "lowerdir") })
	short := slices.Concat(line[:at], []byte(strings.TrimSuffix(strings.Join(options, ","), "\n")), []byte("\n"))
	return short
}

// top returns the topmost mount at a path, if the path is a mount point.
func (t mountTable) top(path string) (mountEntry, bool) {
	var at []mountEntry
	covered := map[int]bool{}
	for _, l := range t {
		if l.Mountpoint == path {
			at = append(at, l)
			covered[l.Parent] = true
		}
	}
	for _, l := range slices.Backward(at) {
		if !covered[l.ID] {
			return l, true
		}
	}
	return mountEntry{}, false
}

// mountOf reports whether the entry is a mount of the device: of its filesystem, by number, or of
// its node, by name and number.
func (l mountEntry) mountOf(device executor.Device) (executor.Mount, bool) {
	if !device.Active() {
		return executor.Mount{}, false
	}
	m := executor.Mount{Path: l.Mountpoint, ReadOnly: l.hasOption("ro")}
	if l.number() == device.Number {
		return m, true
	}
	m.DeviceNode = true
	return m, l.Root == nodeRoot(device) && (l.FSType == "devtmpfs" || isNode(l.Mountpoint, device.Number))
}

// nodeRoot is the root field of a mount of the device's node.
func nodeRoot(device executor.Device) string { return "/" + filepath.Base(device.Path) }

func (l mountEntry) hasOption(option string) bool {
	return slices.Contains(strings.Split(l.Options, ","), option)
}

// isNode reports whether the path is the device's node.
func isNode(path string, number uint64) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK && st.Rdev == number
}

// Mounts returns every mount of the device.
func (m *Mounter) Mounts(_ context.Context, device executor.Device) ([]executor.Mount, error) {
	if !device.Active() {
		return nil, nil
	}
	index, err := m.tableCache.get()
	if err != nil {
		return nil, err
	}
	return index.mountsOf(device), nil
}

// SelfTest returns an error unless mounts below the roots propagate to the rest of the host: the
// roots must lie on mounts with shared propagation (S125).
func (m *Mounter) SelfTest() error {
	lines, err := readTable()
	if err != nil {
		return err
	}
	for _, r := range m.roots {
		if entry := lines.containingMount(r.real); !strings.Contains(entry.Optional, "shared:") {
			return fmt.Errorf("mounts below %s would not be seen by containers: %s is not shared: run `mount --make-rshared %s`, or mount it into this container with propagation Bidirectional", r.configured, entry.Mountpoint, entry.Mountpoint)
		}
	}
	return nil
}

// containingMount returns the mount that a path lies on.
func (t mountTable) containingMount(path string) mountEntry {
	for dir := path; ; dir = filepath.Dir(dir) {
		if l, ok := t.top(dir); ok {
			return l
		}
		if dir == "/" {
			return mountEntry{&mountinfo.Info{Mountpoint: "/"}}
		}
	}
}
