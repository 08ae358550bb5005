package mount

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A program may give the kernel a file for asynchronous I/O and close its descriptor: an io_uring keeps files that are registered with
// it and those of writes that were begun, a context of io_submit the latter. So a process of a container that has the volume and uses
// either may write to it. One of the host reaches all volumes, and counts for a file that its io_uring names.
const (
	ringLink = "anon_inode:[io_uring]"
	// aioMap is what the memory of a context of io_submit is called.
	aioMap = "/[aio]"
	// mapsTimeout is how long the table of a process's memory may take: a thread that waits for the device may hold it.
	mapsTimeout = 500 * time.Millisecond
)

// ringWrites tells whether a descriptor without a type is an io_uring that may write to the devices.
func (s *writerScan) ringWrites(thread, fd string, info fdInfo) (bool, error) {
	link, err := os.Readlink(filepath.Join(thread, "fd", fd))
	if err != nil || link != ringLink {
		return false, err
	}
	mounts, err := s.mountsOf(thread)
	if err != nil {
		return false, ignoreGone(err)
	}
	for _, path := range info.registered {
		if s.isOnDevices(mounts, path) {
			return true, nil
		}
	}
	return s.containers.has[mounts.namespace], nil
}

// asyncWrites tells whether a process of a container that has the volume has asynchronous I/O, though no descriptor says so. Its first
// thread may have ended, and others have namespaces of their own.
func (s *writerScan) asyncWrites(process string, threads []int) (bool, error) {
	for _, thread := range threads {
		at := filepath.Join(process, "task", strconv.Itoa(thread))
		mounts, err := s.mountsOf(at)
		if ignoreGone(err) != nil {
			return false, err
		}
		if err == nil && s.containers.has[mounts.namespace] {
			return s.hasAsync(at)
		}
	}
	return false, nil
}

func (s *writerScan) hasAsync(thread string) (bool, error) {
	async, err := answerWithin(context.Background(), s.hangingMaps, mapsTimeout, func() (bool, error) { return mapsAsync(thread) })
	if errors.Is(err, errLookHangs) {
		return true, nil // it has the volume, and its memory waits for something
	}
	return async, ignoreGone(err)
}

func mapsAsync(thread string) (bool, error) {
	f, err := os.Open(thread + "/maps")
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if line := lines.Text(); strings.HasSuffix(line, " "+ringLink) || strings.Contains(line, " "+aioMap) {
			return true, nil
		}
	}
	return false, lines.Err()
}

// mountsOf are the mounts that a process or thread reaches.
func (s *writerScan) mountsOf(thread string) (processMounts, error) {
	key, err := readMountsKey(thread)
	if err != nil {
		return processMounts{}, err
	}
	if mounts, known := s.reached[key]; known {
		return mounts, nil
	}
	mounts, err := readProcessMounts(thread, key) // its namespace may be younger than the tables
	if err == nil {
		s.reached[key] = mounts
		s.containers.add(mounts, s.devices)
	}
	return mounts, err
}

// isOnDevices tells whether a path, as a process has it, is of a file on the devices, or of the node of one.
func (s *writerScan) isOnDevices(mounts processMounts, path string) bool {
	if s.devices[mounts.table.containingMount(path).number()] {
		return true
	}
	number, found := mounts.node(path)
	return found && s.devices[number]
}

// containers are the mount namespaces that have the devices as a container has them: to be written, and where the host has them not. A
// service of the host may have a namespace of its own, too, with all of the host's mounts in it.
type containers struct {
	host   string          // its mount namespace
	onHost map[string]bool // where it has the devices
	has    map[string]bool // by mount namespace
}

func newContainers(all []processMounts, devices map[uint64]bool) (*containers, error) {
	host, err := hostNamespace()
	c := &containers{host: host, onHost: map[string]bool{}, has: map[string]bool{}}
	for _, m := range all {
		for _, l := range m.table {
			if m.namespace == host && devices[l.number()] {
				c.onHost[l.Mountpoint] = true
			}
		}
	}
	for _, m := range all {
		c.add(m, devices)
	}
	return c, err
}

func (c *containers) add(m processMounts, devices map[uint64]bool) {
	for _, l := range m.table {
		if m.namespace != c.host && devices[l.number()] && !l.hasOption("ro") && !c.onHost[l.Mountpoint] {
			c.has[m.namespace] = true
		}
	}
}

// hostNamespace is the mount namespace of the host's first process. Where this program may not ask for that one, it is on the host
// itself: in a container it has all rights.
func hostNamespace() (string, error) {
	namespace, err := os.Readlink(filepath.Join(procFolder, strconv.Itoa(firstPID), "ns/mnt"))
	if errors.Is(err, os.ErrPermission) {
		namespace, err = os.Readlink("/proc/self/ns/mnt")
	}
	return namespace, err
}
