package lab

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lowerAs gives a process that leads a session of its own the nice value of this process. The kernel shares the processors among
// sessions first, so that the nice value of each process counts within its session only: see autogroup in sched(7).
func lowerAs(pid int) error {
	value, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return fmt.Errorf("read the nice value: %w", err)
	}
	nice := 20 - value // the system call's value is never negative
	if nice == 0 {
		return nil
	}
	err = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", pid), fmt.Append(nil, nice), 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the kernel has no such groups, or the process has ended, which its guest's Wait says
	}
	if err != nil {
		return fmt.Errorf("set the nice value of the session: %w", err)
	}
	return nil
}
