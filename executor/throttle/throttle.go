// Package throttle puts a volume's I/O limits in force (ControllerModifyVolume):
// it writes them, for the volume's block device, into the control group in which
// the writers run.
//
// With cgroup v2 that is io.max of one group: pods are below it, and a limit of a group
// bounds all groups below it together. A group that is not named is found, wherever the
// kubelet keeps its pods. With cgroup v1 it is blkio.throttle.*_device of one group, and
// bounds the processes of that very group only, not of those below it: there the group
// that the writers themselves are in must be named.
//
// A limit is kept by the kernel with the device's number, not with what is
// attached to it: it outlives a loop device's image and would bound the next one.
// So limits are applied at every staging, zero ones too, and ended before a device
// is detached.
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
	// Group is the control group, relative to the hierarchy's root; empty: those of the
	// kubelets' pods.
	Group string
}

// Throttle implements executor.Throttle.
type Throttle struct {
	root    string // of the hierarchy
	group   string // below it; empty: to be found
	version int    // of the hierarchy: 1 or 2
}

// New finds the hierarchy that bounds I/O: v2 where it has the controller, else
// v1's blkio. That the group is there is looked at by Apply: pods may come later.
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

// NeedsGroup tells whether limits are put in force only where a group is named.
func (t *Throttle) NeedsGroup() bool { return t.version == 1 && t.group == "" }

// Check tells whether limits can be put in force now.
func (t *Throttle) Check() error {
	groups, err := t.groups()
	if err != nil {
		return err
	}
	for _, dir := range groups {
		for _, s := range t.settings(dir, fsm.Limits{}) {
			if _, err := os.Stat(s.file); err != nil {
				return refuse(dir, err)
			}
		}
	}
	return nil
}

// Apply writes the limits for the device and reads them back. Where the group is
// missing there is nothing to end; limits that are not zero are then Precondition.
func (t *Throttle) Apply(ctx context.Context, device executor.Device, limits fsm.Limits) error {
	if !device.Active() {
		return fsm.Reject(fsm.Precondition, "limits need an attached device")
	}
	groups, err := t.groups()
	if err != nil && limits == (fsm.Limits{}) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, dir := range groups {
		for _, s := range t.settings(dir, limits) {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := s.put(number(device))
			if errors.Is(err, fs.ErrNotExist) && limits == (fsm.Limits{}) {
				continue
			}
			if err != nil {
				return refuse(dir, err)
			}
		}
	}
	return nil
}

// refuse says what is missing on the host.
func refuse(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fsm.Reject(fsm.Precondition, "the control group %s is missing, or does not bound I/O: name the writers' group with --io-cgroup, and enable the io controller in the groups above it", dir)
	}
	return fmt.Errorf("limit I/O in %s: %w", dir, err)
}

// number is the device as control groups name it.
func number(d executor.Device) string {
	return fmt.Sprintf("%d:%d", unix.Major(d.Number), unix.Minor(d.Number))
}

// setting is one file and what a device's line in it must be.
type setting struct {
	file string
	// value is written behind the device's number.
	value string
	// want is what the line then says; empty: there is none.
	want string
}

func (t *Throttle) settings(dir string, l fsm.Limits) []setting {
	if t.version == 2 {
		return []setting{unified(filepath.Join(dir, "io.max"), l)}
	}
	return []setting{
		throttled(dir, "read_bps", l.ReadBPS), throttled(dir, "write_bps", l.WriteBPS),
		throttled(dir, "read_iops", iops(l.ReadIOPS)), throttled(dir, "write_iops", iops(l.WriteIOPS)),
	}
}

// iops leaves out what the kernel takes for no limit.
func iops(n uint64) uint64 {
	if n >= math.MaxUint32 {
		return 0
	}
	return n
}

func throttled(dir, kind string, limit uint64) setting {
	s := setting{file: filepath.Join(dir, "blkio.throttle."+kind+"_device"), value: fmt.Sprint(limit)}
	if limit != 0 {
		s.want = s.value
	}
	return s
}

// unified is a line of io.max; a device without limits has none.
func unified(file string, l fsm.Limits) setting {
	s := setting{file: file, value: fmt.Sprintf("rbps=%s wbps=%s riops=%s wiops=%s",
		orMax(l.ReadBPS), orMax(l.WriteBPS), orMax(iops(l.ReadIOPS)), orMax(iops(l.WriteIOPS)))}
	if strings.Count(s.value, "=max") < 4 {
		s.want = s.value
	}
	return s
}

func orMax(limit uint64) string {
	if limit == 0 {
		return "max"
	}
	return fmt.Sprint(limit)
}

// put writes the device's line, unless it is as it should be, and reads it back.
func (s setting) put(device string) error {
	have, err := s.line(device)
	if err != nil || have == s.want {
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
	if have, err = s.line(device); err == nil && have != s.want {
		err = fmt.Errorf("%s says %q of %s after %q was written", filepath.Base(s.file), have, device, s.value)
	}
	return err
}

// line is what the file says of the device; empty when nothing.
func (s setting) line(device string) (string, error) {
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
