package drbd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// kernelState is what the kernel says of all resources. It asks only what answers while a command
// hangs in the kernel, and holds no lock while it asks (S6).
type kernelState struct {
	config *Config

	mu          sync.Mutex
	minorOwners map[uint32]fsm.VolumeID // owner of each minor, as last observed
	freeCounts  map[uint32]uint64       // how often each minor was found unused
}

func newKernelState(c *Config) *kernelState {
	return &kernelState{config: c, minorOwners: map[uint32]fsm.VolumeID{}, freeCounts: map[uint32]uint64{}}
}

// readProc reads /proc/drbd. It runs no command, so it answers also while one hangs.
func (k *kernelState) readProc() (procTable, error) {
	text, err := os.ReadFile(filepath.Join(k.config.procDir, "drbd"))
	if err != nil {
		return procTable{}, fmt.Errorf("read what the kernel says of DRBD: %w", err)
	}
	t, err := parseProc(string(text))
	if err != nil {
		return procTable{}, fmt.Errorf("read what the kernel says of DRBD: %w", err)
	}
	return t, nil
}

// version is the loaded module's, such as 8.4.11; empty while none is loaded.
func (k *kernelState) version() string {
	t, err := k.readProc()
	if err != nil {
		return ""
	}
	return t.version
}

func major(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(first)
	return n
}

// query runs a command that changes nothing.
func (k *kernelState) query(ctx context.Context, tool string, args ...string) ([]byte, error) {
	out, err := k.config.runner.Run(ctx, run.Command{Tool: tool, Args: args, Timeout: queryTimeout})
	var failed *run.Error
	if errors.As(err, &failed) && failed.Stuck() == nil && !failed.TimedOut && failed.Unwrap() == nil {
		return nil, &Error{Tool: tool, Code: failed.Code, Text: sanitizeOutput(failed.Output)}
	}
	return out, err
}

// minor reports whether the kernel has a resource, and returns its minor, 0 if it has none.
func (k *kernelState) minor(ctx context.Context, id fsm.VolumeID) (minor uint32, found bool, err error) {
	if _, err := k.readProc(); err != nil {
		return 0, false, ignoreMissing(err)
	}
	out, err := k.query(ctx, "drbdsetup", "events2", "--now", string(id))
	if err != nil {
		return 0, false, fmt.Errorf("ask the kernel for %s: %w", id, err)
	}
	for n, owner := range parseMinors(string(out)) {
		if owner == id {
			minor = n
		}
	}
	for _, owner := range parseVolumes(string(out)) {
		found = found || owner == id
	}
	return minor, found, nil
}

// volumes returns the volumes that the kernel has resources of.
func (k *kernelState) volumes(ctx context.Context) ([]fsm.VolumeID, error) {
	if _, err := os.Stat(filepath.Join(k.config.procDir, "drbd")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	out, err := k.query(ctx, "drbdsetup", "events2", "--now")
	if err != nil {
		return nil, fmt.Errorf("ask the kernel for its resources: %w", err)
	}
	return parseVolumes(string(out)), nil
}

// isFrozen reports whether suspend-io holds back the I/O of a resource: /proc/drbd does not tell for which reason it is
// suspended. What cannot be read counts as not frozen: then the suspension ends by its verdict, as any other.
func (k *kernelState) isFrozen(ctx context.Context, id fsm.VolumeID) bool {
	out, err := k.query(ctx, "drbdsetup", "events2", "--now", string(id))
	if err != nil {
		k.config.Log.Debug("why the I/O is suspended cannot be read", "volume", id, "error", err)
	}
	return err == nil && parseFrozen(string(out), id)
}

var (
	peerAddressPattern  = regexp.MustCompile(`(?s)_remote_host\s*\{\s*address\s+(ipv[46]) ([^;\s]+);`)
	localAddressPattern = regexp.MustCompile(`(?s)_this_host\s*\{\s*address\s+(ipv[46]) ([^;\s]+);`)
)

// addresses are those of the kernel's connection, empty when it has none.
func (k *kernelState) addresses(ctx context.Context, id fsm.VolumeID) (local, peer string, err error) {
	out, err := k.query(ctx, "drbdsetup", "show", string(id))
	if err != nil {
		return "", "", fmt.Errorf("ask the kernel for the addresses of %s: %w", id, err)
	}
	l, p := localAddressPattern.FindStringSubmatch(string(out)), peerAddressPattern.FindStringSubmatch(string(out))
	if l == nil || p == nil {
		return "", "", nil
	}
	return l[1] + ":" + l[2], p[1] + ":" + p[2], nil
}

// drbdMajor is the major number of DRBD's block devices (LANANA).
const drbdMajor = 147

func devicePath(minor uint32) string { return "/dev/drbd" + minorString(minor) }

// deviceSize returns a DRBD device's size in bytes, 0 when the kernel does not tell it.
func (k *kernelState) deviceSize(minor uint32) int64 {
	text, err := os.ReadFile(filepath.Join(k.config.sysDir, "block", "drbd"+minorString(minor), "size"))
	if err != nil {
		return 0
	}
	sectors, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 54)
	if err != nil {
		return 0
	}
	return sectors * sectorBytes
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
