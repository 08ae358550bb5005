// Package throttle applies a volume's I/O limits (ControllerModifyVolume): it writes
// them, for the volume's block device, into the control group in which the writers
// run.
//
// With cgroup v2 that is io.max of one group: pods are below it, and a limit of a group
// bounds all groups below it together. If no group is configured, the groups of the
// kubelets' pods are found automatically. With cgroup v1 it is blkio.throttle.*_device
// of one group, and bounds the processes of that very group only, not of those below
// it: there the group that the writers themselves are in must be configured.
//
// The kernel keeps a limit by the device's number, independently of the device's
// content: it outlives a loop device's image and would bound the next one. So limits
// are applied at every staging, zero ones too, and removed before a device is
// deactivated.
package throttle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.Throttle = (*Throttle)(nil)

// Config says where limits are written.
type Config struct {
	// Group is the control group, relative to the hierarchy's root; empty: the groups of the
	// kubelets' pods.
	Group string
}

// Throttle implements executor.Throttle.
type Throttle struct {
	root    string // of the hierarchy
	group   string // below it; empty: found automatically
	version int    // of the hierarchy: 1 or 2
}

// New finds the hierarchy that controls I/O: v2 where it has the io controller, else v1's blkio.
// The group itself is looked up by Apply: pods may be created later.
func New(cfg Config) (*Throttle, error) {
	if cfg.Group != "" && !filepath.IsLocal(cfg.Group) {
		return nil, fmt.Errorf("the control group %q is not a path below the hierarchy's root", cfg.Group)
	}
	root, version, err := hierarchy()
	if err != nil {
		return nil, err
	}
	return &Throttle{root: root, group: cfg.Group, version: version}, nil
}

func hierarchy() (root string, version int, err error) {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return "", 0, fmt.Errorf("look for control groups: %w", err)
	}
	for _, m := range mounts {
		if m.FSType == "cgroup2" && hasWord(filepath.Join(m.Mountpoint, "cgroup.controllers"), "io") {
			return m.Mountpoint, 2, nil
		}
	}
	for _, m := range mounts {
		if m.FSType == "cgroup" && strings.Contains(","+m.VFSOptions+",", ",blkio,") {
			return m.Mountpoint, 1, nil
		}
	}
	return "", 0, errors.New("no control groups that bound I/O are mounted: neither v2's io nor v1's blkio")
}

func hasWord(path, word string) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	for _, field := range strings.Fields(string(text)) {
		if field == word {
			return true
		}
	}
	return false
}

// NeedsGroup reports whether limits can be applied only when a group is configured.
func (t *Throttle) NeedsGroup() bool { return t.version == 1 && t.group == "" }

// Check returns why limits cannot be applied now; nil when they can.
func (t *Throttle) Check() error {
	groups, err := t.groupDirs()
	if err != nil {
		return err
	}
	for _, dir := range groups {
		for _, s := range t.limitLines(dir, fsm.Limits{}) {
			if _, err := os.Stat(s.file); err != nil {
				return missingGroupError(dir, err)
			}
		}
	}
	return nil
}

// Apply writes the limits for the device and reads them back. Without the group there is nothing
// to remove, so zero limits succeed; other limits are then Precondition.
func (t *Throttle) Apply(ctx context.Context, device executor.Device, limits fsm.Limits) error {
	if !device.Active() {
		return fsm.Reject(fsm.Precondition, "limits need an attached device")
	}
	groups, err := t.groupDirs()
	if err != nil && limits == (fsm.Limits{}) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, dir := range groups {
		for _, s := range t.limitLines(dir, limits) {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := s.apply(deviceNumber(device))
			if errors.Is(err, fs.ErrNotExist) && limits == (fsm.Limits{}) {
				continue
			}
			if err != nil {
				return missingGroupError(dir, err)
			}
		}
	}
	return nil
}

// missingGroupError is Precondition, with the remedy, when the control group is missing.
func missingGroupError(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fsm.Reject(fsm.Precondition, "the control group %s is missing, or does not bound I/O: name the writers' group with --io-cgroup, and enable the io controller in the groups above it", dir)
	}
	return fmt.Errorf("limit I/O in %s: %w", dir, err)
}

// deviceNumber is the device's number in the form of control group files.
func deviceNumber(d executor.Device) string {
	return fmt.Sprintf("%d:%d", unix.Major(d.Number), unix.Minor(d.Number))
}

// limitLine is a file and the line in it for one device.
type limitLine struct {
	file string
	// value is written after the device's number.
	value string
	// expected is the line afterwards; empty: none.
	expected string
}

func (t *Throttle) limitLines(dir string, l fsm.Limits) []limitLine {
	if t.version == 2 {
		return []limitLine{v2Line(filepath.Join(dir, "io.max"), l)}
	}
	return []limitLine{
		v1Line(dir, "read_bps", l.ReadBPS), v1Line(dir, "write_bps", l.WriteBPS),
		v1Line(dir, "read_iops", iops(l.ReadIOPS)), v1Line(dir, "write_iops", iops(l.WriteIOPS)),
	}
}

// iops omits values that the kernel treats as no limit.
func iops(n uint64) uint64 {
	if n >= math.MaxUint32 {
		return 0
	}
	return n
}

func v1Line(dir, kind string, limit uint64) limitLine {
	s := limitLine{file: filepath.Join(dir, "blkio.throttle."+kind+"_device"), value: fmt.Sprint(limit)}
	if limit != 0 {
		s.expected = s.value
	}
	return s
}

// v2Line is the line of io.max; a device without limits has none.
func v2Line(file string, l fsm.Limits) limitLine {
	s := limitLine{file: file, value: fmt.Sprintf("rbps=%s wbps=%s riops=%s wiops=%s",
		limitOrMax(l.ReadBPS), limitOrMax(l.WriteBPS), limitOrMax(iops(l.ReadIOPS)), limitOrMax(iops(l.WriteIOPS)))}
	if strings.Count(s.value, "=max") < 4 {
		s.expected = s.value
	}
	return s
}

func limitOrMax(limit uint64) string {
	if limit == 0 {
		return "max"
	}
	return fmt.Sprint(limit)
}

// apply writes the device's line, unless it is already as expected, and reads it back.
func (s limitLine) apply(device string) error {
	have, err := s.current(device)
	if err != nil || have == s.expected {
		return err
	}
	f, err := os.OpenFile(s.file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(device + " " + s.value)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if have, err = s.current(device); err == nil && have != s.expected {
		err = fmt.Errorf("%s says %q of %s after %q was written", filepath.Base(s.file), have, device, s.value)
	}
	return err
}

// current returns the device's line; empty when there is none.
func (s limitLine) current(device string) (string, error) {
	text, err := os.ReadFile(s.file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), device+" "); ok {
			return value, nil
		}
	}
	return "", nil
}
