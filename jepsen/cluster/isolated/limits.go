package isolated

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"

	"golang.org/x/sys/unix"
)

// LimitFiles leaves the member's process so many descriptors more than it has open, until Unlimit or until it ends. It
// answers how many it has.
func (m *Member) LimitFiles(more int) (open int, err error) {
	pid := m.PID()
	if pid == 0 {
		return 0, fmt.Errorf("limit the files of %s: %w", m.ID, ErrNoProcess)
	}
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err == nil {
		err = limit(pid, unix.RLIMIT_NOFILE, uint64(len(entries)+more))
	}
	if err != nil {
		return 0, fmt.Errorf("limit the files of %s: %w", m.ID, ofProcess(pid, err))
	}
	return len(entries), nil
}

// LimitMemory leaves the member's process so many bytes more of data than it has, until Unlimit or until it ends. A process that
// needs more ends itself, as one does that the kernel refuses memory.
func (m *Member) LimitMemory(more int64) (used int64, err error) {
	pid := m.PID()
	if pid == 0 {
		return 0, fmt.Errorf("limit the memory of %s: %w", m.ID, ErrNoProcess)
	}
	m.mu.Lock()
	m.limited = true
	m.mu.Unlock()
	if used, err = dataOf(pid); err == nil {
		err = limit(pid, unix.RLIMIT_DATA, uint64(used+more))
	}
	if err != nil {
		return 0, fmt.Errorf("limit the memory of %s: %w", m.ID, ofProcess(pid, err))
	}
	return used, nil
}

var dataLine = regexp.MustCompile(`VmData:\s+(\d+) kB`)

// dataOf is how many bytes of data a process has, as RLIMIT_DATA counts them.
func dataOf(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	found := dataLine.FindSubmatch(text)
	if found == nil {
		return 0, errors.New("its status has no VmData")
	}
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	return kib << 10, err
}

// Unlimit ends what LimitFiles and LimitMemory began; without a process it does nothing.
func (m *Member) Unlimit() error {
	pid := m.PID()
	if pid == 0 {
		return nil
	}
	err := errors.Join(limit(pid, unix.RLIMIT_NOFILE, unix.RLIM_INFINITY), limit(pid, unix.RLIMIT_DATA, unix.RLIM_INFINITY))
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// limit sets the limit that counts, up to the one that only a privilege raises.
func limit(pid, resource int, value uint64) error {
	var now unix.Rlimit
	if err := unix.Prlimit(pid, resource, nil, &now); err != nil {
		return err
	}
	now.Cur = min(value, now.Max)
	return unix.Prlimit(pid, resource, &now, nil)
}
