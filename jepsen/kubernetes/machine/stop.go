package machine

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Stop ends the machine as a loss of power would: its first process is killed and all others with it. Its disks stay. A machine that does
// not run is none to stop.
func Stop(c Config) error {
	if err := c.kill(); err != nil {
		return err
	}
	if err := c.detachLoops(); err != nil {
		return err
	}
	return c.removeCgroups()
}

func (c Config) kill() error {
	for range 300 {
		pid, err := c.PID()
		if err != nil {
			return nil
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("the machine %s does not end: a process of it hangs in the kernel", c.Name)
}

// Remove stops the machine and removes its folder.
func Remove(c Config) error {
	if err := Stop(c); err != nil {
		return err
	}
	return os.RemoveAll(c.Folder())
}

// RemoveAll removes every machine whose folder is in dir, also after whoever started them was killed.
func RemoveAll(dir string) error {
	names, err := Names(dir)
	for _, name := range names {
		c, opened := Open(dir, name)
		if opened == nil {
			opened = Remove(c)
		}
		err = errors.Join(err, opened)
	}
	return err
}
