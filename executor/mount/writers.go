package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	procFolder   = "/proc"
	deviceFolder = "/sys/dev/block"
	firstPID     = 1
)

// Writers lists the processes that have the device, a device above it, or a file on their filesystems open for writing,
// or may have it by asynchronous I/O.
// What is only mapped or open for reading does not count: it is made durable by a sync, which ends in a flush that fails.
// Nor does the host's first process, which keeps files for others at most, and nor what only the kernel writes to: a loop
// device, too, sends a flush after such a write. A descriptor that another thread closes during a write is not seen.
// A look that hangs is an error after half a minute, so that its caller can do what it does where writers cannot be ended.
func (m *Mounter) Writers(ctx context.Context, device executor.Device) ([]executor.Process, error) {
	return answerWithin(ctx, &m.hangingLooks, writersTimeout, func() ([]executor.Process, error) { return m.lookForWriters(ctx, device) })
}

func (m *Mounter) lookForWriters(ctx context.Context, device executor.Device) ([]executor.Process, error) {
	devices, err := stackAbove(deviceFolder, device.Number)
	if err != nil {
		return nil, err
	}
	pids, err := numbersIn(procFolder)
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	mounts, err := mountsOfAll(pids)
	if err != nil {
		return nil, fmt.Errorf("read the tables of mounts: %w", err)
	}
	addAbove(devices, mounts)
	scan, err := newWriterScan(devices, mounts, &m.hangingMaps)
	defer scan.close()
	if err != nil {
		return nil, fmt.Errorf("read which processes are the host's: %w", err)
	}
	return scan.lookAtAll(ctx, pids)
}

// stackAbove is a device and all that the kernel has above it, as an encrypted or a logical one.
func stackAbove(folder string, number uint64) (map[uint64]bool, error) {
	all := map[uint64]bool{}
	for todo := []uint64{number}; len(todo) > 0; todo = todo[1:] {
		if all[todo[0]] {
			continue
		}
		all[todo[0]] = true
		above, err := holdersOf(folder, todo[0])
		if err != nil {
			return nil, fmt.Errorf("read what is above a device: %w", err)
		}
		todo = append(todo, above...)
	}
	return all, nil
}

func holdersOf(folder string, number uint64) (above []uint64, err error) {
	dir := filepath.Join(folder, fmt.Sprintf("%d:%d", unix.Major(number), unix.Minor(number)), "holders")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name(), "dev"))
		if errors.Is(err, os.ErrNotExist) {
			continue // it went
		}
		if err != nil {
			return nil, err
		}
		holder, err := parseDevice(strings.TrimSpace(string(text)))
		if err != nil {
			return nil, err
		}
		above = append(above, holder)
	}
	return above, nil
}

func parseDevice(text string) (uint64, error) {
	major, minor, _ := strings.Cut(text, ":")
	a, errA := strconv.ParseUint(major, 10, 32)
	b, errB := strconv.ParseUint(minor, 10, 32)
	return unix.Mkdev(uint32(a), uint32(b)), errors.Join(errA, errB)
}

// Kill kills the process, and none that got its number since.
func (m *Mounter) Kill(_ context.Context, p executor.Process) error {
	if p.PID <= firstPID {
		return fsm.Reject(fsm.Precondition, "process %d (%s) is never killed", p.PID, p.Name)
	}
	handle, err := unix.PidfdOpen(p.PID, 0)
	if err == nil {
		defer closeFD(handle)
		var now threadStat
		if now, err = readThreadStat(filepath.Join(procFolder, strconv.Itoa(p.PID))); err == nil && now.start == p.Start {
			err = unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0)
		}
	}
	if isGone(err) {
		return nil
	}
	return err
}

func isGone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH)
}
