package lvm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/executor/run"
)

const (
	// changeTimeout bounds a command that changes something. LVM waits for its lock, and for
	// writes in flight on what it suspends.
	changeTimeout = 2 * time.Minute
	// activateTimeout bounds the activation of the pool: thin_check reads its metadata.
	activateTimeout = 10 * time.Minute
	// mapTimeout bounds reading the pool's metadata.
	mapTimeout = 10 * time.Minute
)

// tools runs lvm, dmsetup and the thin tools.
type tools struct {
	runner Runner
	config string // passed to every lvm command
	udev   bool
}

// newTools reads this host's LVM device filter and excludes the devices that are volumes, or lie
// on volumes.
func newTools(ctx context.Context, runner Runner, vg string, udev bool) *tools {
	t := &tools{runner: runner, udev: udev}
	// A host whose configuration cannot be read counts as having no filter.
	own, _ := runner.Run(ctx, run.Command{Tool: "lvm", Args: []string{"lvmconfig", "--typeconfig", "full", "devices/global_filter"}})
	t.config = lvmConfig(vg, string(own), udev)
	return t
}

// udevIsUsable reports whether udev manages device nodes here, and LVM can wait for it: the two
// synchronise through semaphores of the host's initial IPC namespace.
func udevIsUsable() bool {
	const firstIPC = 0xEFFFFFFF // PROC_IPC_INIT_INO of include/linux/proc_ns.h
	var st syscall.Stat_t
	if _, err := os.Stat("/run/udev/control"); err != nil {
		return false
	}
	return syscall.Stat("/proc/self/ns/ipc", &st) == nil && st.Ino == firstIPC
}

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
		`"r|^/dev/drbd|"`, `"r|^/dev/loop|"`, `"r|^/dev/nbd|"`,
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

// readState queries LVM for the pool and all that is in it.
func (p *Pool) readState(ctx context.Context) (*poolState, error) {
	var out bytes.Buffer
	selection := fmt.Sprintf(`pool_lv="%s" || lv_name="%s"`, p.ThinPool, p.ThinPool)
	err := p.tools.query(ctx, &out, "lvs", "--reportformat", "json", "--units", "b", "--nosuffix", "-o", lvsColumns, "-S", selection, p.VG)
	if err != nil {
		return nil, fmt.Errorf("look at pool %s: %w", p.name(), err)
	}
	return parsePoolState(out.Bytes(), p.ThinPool)
}

// query runs an lvm command that changes nothing. It may be killed.
func (t *tools) query(ctx context.Context, out io.Writer, command string, args ...string) error {
	args = append([]string{command, "--config", t.config}, args...)
	_, err := t.runner.Run(ctx, run.Command{Tool: "lvm", Args: args, Stdout: out})
	return classifyError(err)
}

// runChange runs an lvm command that changes something. It is not interrupted when the context
// ends: a killed command leaves devices suspended. The caller must check afterwards whether the
// result is still wanted.
func (t *tools) runChange(ctx context.Context, timeout time.Duration, command string, args ...string) error {
	args = append([]string{command, "--config", t.config, "-y"}, args...)
	_, err := t.runner.Run(context.WithoutCancel(ctx), run.Command{Tool: "lvm", Args: args, Timeout: timeout, OutlivesParent: true})
	return classifyError(err)
}

// dmsetup runs a dmsetup command that changes the device mapper.
func (t *tools) dmsetup(ctx context.Context, command string, args ...string) error {
	all := []string{command}
	if !t.udev {
		all = append(all, "--noudevrules", "--noudevsync")
	}
	_, err := t.runner.Run(context.WithoutCancel(ctx), run.Command{Tool: "dmsetup", Args: append(all, args...), OutlivesParent: true})
	return classifyError(err)
}

// makeNode creates a device's node below /dev/mapper where there is no udev: dmsetup leaves that
// to udev, unless its environment says that there is none.
func (t *tools) makeNode(ctx context.Context, name string) error {
	if t.udev {
		return nil
	}
	if _, err := t.runner.Run(ctx, run.Command{Tool: "dmsetup", Args: []string{"mknodes", name}}); err != nil {
		return fmt.Errorf("make the node of %s: %w", name, classifyError(err))
	}
	return nil
}

// Failures that callers handle.
var (
	errNoGroup        = errors.New("there is no such volume group")
	errMissing        = errors.New("it is not there")
	errExists         = errors.New("it is there already")
	errInUse          = errors.New("it is in use")
	errFull           = errors.New("the pool is full")
	errSameSize       = errors.New("it has this size already")
	errOrphan         = errors.New("the pool's metadata has a thin device that LVM does not know")
	errNoMetadataSnap = errors.New("the pool's metadata has no snapshot")
	errDMInUse        = errors.New("the device is in use")
	errNoMapping      = errors.New("there is no such device")
)

// knownFailures maps the tools' exit codes and messages to errors. The messages are those of lvm2
// 2.03 and thin-provisioning-tools 0.9, in English.
var knownFailures = []struct {
	tool  string
	code  int
	says  string
	means error
}{
	{"lvm", 5, "Cannot process volume group", errNoGroup},
	{"lvm", 5, "Failed to find logical volume", errMissing},
	{"lvm", 5, "already exists in volume group", errExists},
	{"lvm", 5, "is used by another device", errInUse},
	{"lvm", 5, "contains a filesystem in use", errInUse},
	{"lvm", 5, " in use", errInUse},
	{"lvm", 5, "reached threshold", errFull},
	{"lvm", 5, "is above threshold", errFull},
	{"lvm", 5, "matches existing size", errSameSize},
	{"lvm", 5, "already contain thin device", errOrphan},
	{"dmsetup", 1, "Device or resource busy", errDMInUse},
	{"dmsetup", 1, "No such device or address", errNoMapping},
	{"dmsetup", 1, "Device does not exist", errNoMapping},
	{"dmsetup", 1, "Invalid argument", errNoMetadataSnap},
	{"thin_dump", 1, "no current metadata snap", errNoMetadataSnap},
	{"thin_ls", 1, "no current metadata snap", errNoMetadataSnap},
}

// classifyError wraps a command's failure in one of the errors above, if it is known.
func classifyError(err error) error {
	var failed *run.Error
	if !errors.As(err, &failed) {
		return err
	}
	for _, f := range knownFailures {
		if f.tool == failed.Tool && f.code == failed.Code && strings.Contains(failed.Output, f.says) {
			return fmt.Errorf("%w: %w", f.means, err)
		}
	}
	return err
}
