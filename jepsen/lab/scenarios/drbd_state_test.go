package scenarios

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"
)

// drbdState is the state of a volume in a host's kernel.
type drbdState struct {
	connection, role, peerRole, disk, peerDisk string
	suspended                                  bool
}

var stateLine = regexp.MustCompile(`cs:(\S+) ro:(\S+)/(\S+) ds:(\S+)/(\S+) \S+ (\S)`)

// kernel reads it; the zero value when the kernel does not have it.
func (w *env) kernel(ctx context.Context, v *volume, node string) (drbdState, error) {
	out, code, err := w.guest(node).Exec(ctx, fmt.Sprintf(
		`minor=$(sed -n 's/.*minor \([0-9]*\).*/\1/p' /etc/drbd.d/*%s*.res | head -1); [ -n "$minor" ] && grep "^ *$minor: " /proc/drbd`, v.id))
	if err != nil || code != 0 {
		return drbdState{}, err
	}
	m := stateLine.FindStringSubmatch(out)
	if m == nil {
		return drbdState{}, nil
	}
	return drbdState{connection: m[1], role: m[2], peerRole: m[3], disk: m[4], peerDisk: m[5], suspended: m[6] == "s"}, nil
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
