package dev

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// lock takes the lock of a DIR, which this process holds until it ends.
func lock(l layout) (*os.File, error) {
	file, err := os.OpenFile(l.lockFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", l.dir, err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(l.lockFile()) // for the message only
		_ = file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, exit.Refusedf("use %s: a `holdfast dev` with pid %s works there; stop it first", l.dir, strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("lock %s: %w", l.dir, err)
	}
	err = errors.Join(file.Truncate(0), writeAt(file, fmt.Sprintln(os.Getpid())))
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", l.dir, errors.Join(err, file.Close()))
	}
	return file, nil
}

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}
