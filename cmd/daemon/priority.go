package daemon

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// SetPriority sets the nice value of all threads of this process; later threads inherit it. A lower value
// than the present one requires CAP_SYS_NICE; the error says so.
func SetPriority(nice int) error {
	for range 2 { // a thread may begin another while the first round looks at them
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("list the threads of this process: %w", err)
		}
		for _, task := range tasks {
			id, err := strconv.Atoi(task.Name())
			if err != nil {
				continue
			}
			if err := unix.Setpriority(unix.PRIO_PROCESS, id, nice); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("give this process the nice value %d: %w; it takes CAP_SYS_NICE", nice, err)
			}
		}
	}
	return nil
}
