package mount

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// resolveCached is the kernel's RESOLVE_CACHED, since 5.12.
const resolveCached = 0x20

// addOverlays adds to the devices those of overlays that keep on them what is written.
func addOverlays(devices map[uint64]bool, pids []int) error {
	uppers, err := uppersOf(pids)
	if err != nil {
		return err
	}
	for again := true; again; { // an overlay may be on another one
		again = false
		for overlay, upper := range uppers {
			if devices[upper] && !devices[overlay] {
				devices[overlay], again = true, true
			}
		}
	}
	return nil
}

// uppersOf are the numbers of the filesystems that overlays keep on what is written, by the overlays' own. An overlay is known by its
// number in every mount namespace, but where it keeps that only by a path in the one that it was made in, as that of the program that runs
// containers. So each is looked for until one namespace has it, the host's first: those of containers know their own overlay's path not.
func uppersOf(pids []int) (map[uint64]uint64, error) {
	uppers, seen := map[uint64]uint64{}, map[string]bool{}
	for _, pid := range pids {
		if pid == firstPID {
			continue // others have its namespace
		}
		if err := addUppers(uppers, filepath.Join(procFolder, strconv.Itoa(pid)), seen); err != nil {
			return nil, err
		}
	}
	return uppers, nil
}

// addUppers looks at the mounts of a process whose namespace was not seen yet.
func addUppers(uppers map[uint64]uint64, folder string, seen map[string]bool) error {
	namespace := make([]byte, 64)
	n, err := unix.Readlink(folder+"/ns/mnt", namespace)
	if err != nil || seen[string(namespace[:n])] {
		return ignoreGone(err)
	}
	infos, err := mountsAt(folder + "/mountinfo")
	if err != nil {
		return ignoreGone(err)
	}
	seen[string(namespace[:n])] = true
	for _, info := range infos {
		number := unix.Mkdev(uint32(info.Major), uint32(info.Minor))
		if _, known := uppers[number]; known || info.FSType != "overlay" {
			continue
		}
		if upper, found := upperDevice(folder+"/root", info, infos); found {
			uppers[number] = upper
		}
	}
	return nil
}

// ignoreGone: a process that ends has no namespace any more, and no files.
func ignoreGone(err error) error {
	if isGone(err) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// upperDevice is the number of the filesystem that an overlay's changes are on. Its path is walked in the kernel's memory only, where
// the overlay keeps it: no device or server is asked, and none can make the walk wait.
func upperDevice(root string, overlay *mountinfo.Info, infos []*mountinfo.Info) (number uint64, found bool) {
	path, found := upperPath(overlay.VFSOptions)
	if !found {
		return 0, false
	}
	base, err := unix.Open(root, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer closeFD(base)
	upper, err := openCached(base, path)
	if err != nil {
		return 0, false
	}
	defer closeFD(upper)
	info, err := readFDInfo("/proc/self/fdinfo/" + strconv.Itoa(upper))
	if err != nil {
		return 0, false
	}
	for _, below := range infos {
		if below.ID == info.mount {
			return unix.Mkdev(uint32(below.Major), uint32(below.Minor)), true
		}
	}
	return 0, false
}

const (
	// cachedTries bounds how often a walk is begun anew that a change of names or mounts came between.
	cachedTries = 10
	cachedPause = time.Millisecond
)

// openCached opens a path that the kernel has in its memory. It answers EAGAIN for one that it has not, and also where somebody mounts or
// renames anything meanwhile: then the walk is begun anew.
func openCached(base int, path string) (fd int, err error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolveCached | unix.RESOLVE_IN_ROOT}
	for range cachedTries {
		if fd, err = unix.Openat2(base, path, how); !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, err
		}
		time.Sleep(cachedPause)
	}
	return fd, err
}

// upperPath is where an overlay keeps what is written. One without is only read.
func upperPath(options string) (path string, found bool) {
	for option := range strings.SplitSeq(options, ",") {
		if path, found = strings.CutPrefix(option, "upperdir="); found {
			return path, true
		}
	}
	return "", false
}
