package scenarios

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"time"
)

// drbdState is the state of a volume in a host's kernel.
type drbdState struct {
	connection, role, peerRole, disk, peerDisk string
	suspended                                  bool
}

var (
	// Without a connection there is no protocol between the disks and the flags.
	stateLine = regexp.MustCompile(`cs:(\S+) ro:(\S+)/(\S+) ds:(\S+)/(\S+)(?: [ABC])? +(\S)`)
	minorLine = regexp.MustCompile(`minor (\d+)`)
)

// kernel reads it; the zero value when the kernel does not have it. It reads files, because to start a
// program in a guest takes many times longer, and scenarios ask repeatedly.
func (w *env) kernel(ctx context.Context, v *volume, node string) (drbdState, error) {
	minor, err := w.configuredMinor(ctx, v, node)
	if err != nil || minor == "" {
		return drbdState{}, err
	}
	all, err := w.guest(node).Get(ctx, "/proc/drbd")
	if errors.Is(err, fs.ErrNotExist) {
		return drbdState{}, nil // the module is not loaded
	}
	if err != nil {
		return drbdState{}, err
	}
	return stateOfMinor(string(all), minor), nil
}

// stateOfMinor finds a minor in what the kernel says of all.
func stateOfMinor(all, minor string) drbdState {
	for line := range strings.Lines(all) {
		if m := stateLine.FindStringSubmatch(line); m != nil && strings.HasPrefix(strings.TrimLeft(line, " "), minor+": ") {
			return drbdState{connection: m[1], role: m[2], peerRole: m[3], disk: m[4], peerDisk: m[5], suspended: m[6] == "s"}
		}
	}
	return drbdState{}
}

// configuredMinor is the volume's minor on a host, empty where DRBD is not configured for it.
func (w *env) configuredMinor(ctx context.Context, v *volume, node string) (string, error) {
	text, err := w.guest(node).Get(ctx, "/etc/drbd.d/holdfast-"+v.id+".res")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	m := minorLine.FindStringSubmatch(string(text))
	if m == nil {
		return "", fmt.Errorf("the configuration of %s on %s names no minor", v.id, node)
	}
	return m[1], nil
}

// awaitKernel waits until the kernel's state is as asked.
func (w *env) awaitKernel(t *testing.T, v *volume, node string, within time.Duration, what string, ok func(drbdState) bool) {
	t.Helper()
	eventually(t, within, node+": "+what, func(ctx context.Context) error {
		d, err := w.kernel(ctx, v, node)
		if err == nil && !ok(d) {
			err = fmt.Errorf("it is %+v", d)
		}
		return err
	})
}

func isUpToDate(d drbdState) bool {
	return d.connection == "Connected" && d.disk == "UpToDate" && d.peerDisk == "UpToDate"
}
