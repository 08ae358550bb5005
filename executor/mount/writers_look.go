package mount

import (
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
	// lookTimeout is how long the kernel may take to say what a file is. It needs no device for that.
	lookTimeout = 5 * time.Second
	// maxHangingLooks bounds the threads that wait for such answers.
	maxHangingLooks = 16
)

var errLookHangs = errors.New("the kernel does not say what an open file is")

func mountsAt(path string) ([]*mountinfo.Info, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return mountinfo.GetMountsFromReader(f, nil)
}

// lookWithin tells what an open file is, by its path in /proc, without asking a server or a device.
func lookWithin(path string, hanging *atomic.Int32) (st unix.Statx_t, err error) {
	if hanging.Load() >= maxHangingLooks {
		return st, errLookHangs
	}
	type look struct {
		unix.Statx_t
		err error
	}
	answer := make(chan look, 1)
	hanging.Add(1)
	go func() {
		defer hanging.Add(-1)
		var l look
		l.err = unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, 0, &l.Statx_t)
		answer <- l
	}()
	select {
	case l := <-answer:
		return l.Statx_t, l.err
	case <-time.After(lookTimeout):
		return st, fmt.Errorf("%s: %w", path, errLookHangs)
	}
}
