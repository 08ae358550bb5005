package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/holdfast-storage/holdfast/jepsen/lab/place"
)

// guard waits until the lab's process closes its end of the pipe, which also happens when that process
// panics or is killed, and removes what the lab owns. It has inherited the lock of the lab's number.
func guard(number string) error {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > place.Last {
		return fmt.Errorf("guard: %q is no number of a lab", number)
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP) // it ends with its lab, not before
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return place.PathsOf(n).Sweep()
}
