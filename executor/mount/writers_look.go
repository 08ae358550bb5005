package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// remoteMounts are the mounts of all namespaces whose files a server keeps: one that does not answer would make a look at
// them wait, and none of them is of a device.
type remoteMounts struct {
	known map[int]bool // by the mount's id: whether it is remote
	// numbers are those of the mounts' filesystems, by the mount's id. The files of an overlay may have others.
	numbers map[int]uint64
}

// has tells whether a mount that a thread uses is remote. One that is in no table, as after a lazy unmount, is not.
func (r *remoteMounts) has(thread string, id int) (bool, error) {
	if remote, known := r.known[id]; known {
		return remote, nil
	}
	infos, err := mountsAt(thread + "/mountinfo")
	if errors.Is(err, unix.EINVAL) {
		return false, unix.ESRCH // it is ending, and has no namespace any more
	}
	if err != nil {
		return false, err
	}
	r.known[id] = false
	for _, info := range infos {
		r.known[info.ID] = isRemote(info.FSType)
		r.numbers[info.ID] = unix.Mkdev(uint32(info.Major), uint32(info.Minor))
	}
	return r.known[id], nil
}

func isRemote(fsType string) bool {
	return strings.HasPrefix(fsType, "fuse") || slices.Contains([]string{"nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "afs", "gfs2", "ocfs2", "lustre", "virtiofs", "autofs"}, fsType)
}

const (
	// writersTimeout is how long a look at all processes may take. It asks no device, but some files of /proc may wait for a server.
	writersTimeout = 30 * time.Second
	// maxHangingLooks bounds the looks that the kernel does not answer.
	maxHangingLooks = 16
)

var errLookHangs = errors.New("the kernel does not say what processes have open")

func mountsAt(path string) ([]*mountinfo.Info, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return mountinfo.GetMountsFromReader(f, nil)
}

// answerWithin gives a look up that the kernel does not answer in time: it hangs by itself, and is counted until it ends.
func answerWithin[T any](ctx context.Context, hanging *atomic.Int32, timeout time.Duration, look func() (T, error)) (none T, err error) {
	if hanging.Load() >= maxHangingLooks {
		return none, errLookHangs
	}
	type answer struct {
		found T
		err   error
	}
	answered := make(chan answer, 1)
	hanging.Add(1)
	go func() {
		defer hanging.Add(-1)
		found, err := look()
		answered <- answer{found, err}
	}()
	select {
	case a := <-answered:
		return a.found, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-time.After(timeout):
		return none, fmt.Errorf("%w within %s", errLookHangs, timeout)
	}
}
