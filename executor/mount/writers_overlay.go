package mount

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// resolveCached is the kernel's RESOLVE_CACHED, since 5.12.
const resolveCached = 0x20

// addAbove adds to the devices the numbers of the filesystems on them that have numbers of their own: overlays that keep on them what is
// written, and those of btrfs.
func addAbove(devices map[uint64]bool, all []processMounts) {
	uppers := uppersOf(all)
	for again := true; again; { // an overlay may be on another one
		again = false
		for above, below := range uppers {
			if devices[below] && !devices[above] {
				devices[above], again = true, true
			}
		}
	}
}

// uppersOf are the numbers of the filesystems or devices below overlays and btrfs, which have numbers of their own, by those.
// An overlay is known by its number in every mount namespace, but where it keeps that only by a path in the one that it was made in, as that
// of the program that runs containers. So each is looked for until one process can reach it: a container does not know its own overlay's path.
func uppersOf(all []processMounts) map[uint64]uint64 {
	uppers := map[uint64]uint64{}
	for _, mounts := range all {
		for _, l := range mounts.table {
			number := l.number()
			if _, known := uppers[number]; known {
				continue
			}
			if upper, found := mounts.below(l); found {
				uppers[number] = upper
			}
		}
	}
	return uppers
}

func (m processMounts) below(l mountEntry) (number uint64, found bool) {
	switch l.FSType {
	case "overlay":
		return m.upperDevice(l)
	case "btrfs":
		return m.node(l.Source)
	}
	return 0, false
}

// upperDevice is the number of the filesystem that an overlay's changes are on.
func (m processMounts) upperDevice(overlay mountEntry) (number uint64, found bool) {
	path, found := upperPath(overlay.VFSOptions)
	if !found {
		return 0, false
	}
	upper, err := m.lookUp(path)
	if err != nil {
		return 0, false
	}
	defer closeFD(upper)
	info, err := readFDInfo("/proc/self/fdinfo/" + strconv.Itoa(upper))
	if err != nil {
		return 0, false
	}
	for _, below := range m.table {
		if below.ID == info.mount {
			return below.number(), true
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
// renames anything meanwhile: then the walk is begun anew. A kernel before 5.12 knows no such walk, and takes the usual one.
func openCached(base int, path string) (fd int, err error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolveCached | unix.RESOLVE_IN_ROOT}
	for range cachedTries {
		switch fd, err = unix.Openat2(base, path, how); {
		case errors.Is(err, unix.EINVAL):
			how.Resolve &^= resolveCached
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			return fd, err
		default:
			time.Sleep(cachedPause)
		}
	}
	return fd, err
}

// upperPath is where an overlay keeps what is written. One without is only read.
func upperPath(options string) (path string, found bool) {
	for option := range strings.SplitSeq(options, ",") {
		if path, found = strings.CutPrefix(option, "upperdir="); found {
			return unescape(path), true
		}
	}
	return "", false
}
