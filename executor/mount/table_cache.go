package mount

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
)

// maxTableAge bounds how long a cached mount table is used. The kernel signals when a mount is
// added, removed or changed, but not when a directory above one is renamed.
const maxTableAge = time.Second

// tableCache caches the kernel's mount table, indexed by device, until it changes: reading the
// complete table for each observed device would cost the number of devices times the number of
// mounts. It is for observations only; code that mounts or unmounts reads the table itself.
type tableCache struct {
	mu     sync.Mutex
	fd     int // signals changes of the table; -1: no descriptor
	readAt time.Time
	index  *tableIndex
}

// newTableCache opens the table without os.File: the runtime's poller would consume the change
// notification, which the kernel delivers only once.
func newTableCache() *tableCache {
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1 // the table is read each time, which returns the error
	}
	return &tableCache{fd: fd}
}

// get returns the index of the current table.
func (c *tableCache) get() (*tableIndex, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, err := c.changed() // before the table is read, so that a later change is signalled next time
	if err != nil {
		return nil, err
	}
	if c.index != nil && !changed && time.Since(c.readAt) < maxTableAge {
		return c.index, nil
	}
	began := time.Now()
	lines, err := readTable()
	if err != nil {
		return nil, err
	}
	c.index, c.readAt = newTableIndex(lines), began
	return c.index, nil
}

// changed reports whether the kernel signalled a change since the last call.
func (c *tableCache) changed() (bool, error) {
	if c.fd < 0 {
		return true, nil
	}
	fds := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLPRI}} //nolint:gosec // a descriptor
	for {
		_, err := unix.Poll(fds, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("ask whether the kernel's table of mounts changed: %w", err)
		}
		return fds[0].Revents&(unix.POLLPRI|unix.POLLERR) != 0, nil
	}
}

func (c *tableCache) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd < 0 {
		return nil
	}
	fd := c.fd
	c.fd, c.index = -1, nil
	return unix.Close(fd)
}

// tableIndex finds the entries that may be mounts of a device, in the table's order.
type tableIndex struct {
	entries  mountTable
	byDevice map[uint64][]int // mounts of its filesystem
	byRoot   map[string][]int // mounts of a node: the root is a file with the device's name
}

func newTableIndex(lines mountTable) *tableIndex {
	x := &tableIndex{entries: lines, byDevice: map[uint64][]int{}, byRoot: map[string][]int{}}
	for i, l := range lines {
		number := l.number()
		x.byDevice[number] = append(x.byDevice[number], i)
		if l.Root != "/" {
			x.byRoot[l.Root] = append(x.byRoot[l.Root], i)
		}
	}
	return x
}

// mountsOf returns every mount of the device.
func (x *tableIndex) mountsOf(device executor.Device) (found []executor.Mount) {
	at := slices.Concat(x.byDevice[device.Number], x.byRoot[nodeRoot(device)])
	slices.Sort(at)
	for _, i := range slices.Compact(at) {
		if current, ours := x.entries[i].mountOf(device); ours {
			found = append(found, current)
		}
	}
	return found
}
