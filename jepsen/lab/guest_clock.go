package lab

import (
	"os"
	"syscall"
	"time"
)

// alarmInterval bounds the time in which a guest's clock does not advance.
const alarmInterval = 250 * time.Millisecond

// bootedNote is the file in the guest's shared directory that its first process makes.
const bootedNote = "booted"

// wakeTimers sends the guest's kernel an alarm repeatedly until the kernel ends.
//
// The kernel arms one timer of the host for its next event, and arms the following one when it handles
// that alarm. An alarm that arrives while another one is being handled, with interrupts off, is lost
// (unblock_signals in the kernel's arch/um/os-Linux/signal.c: "do not reenter the handler"). Then no other
// alarm ever arrives: programs continue and the time of day is right, but no timer of the kernel expires,
// and DRBD waits forever. One more alarm makes all overdue timers run and the next one be armed; where none
// was lost it changes nothing. The signal would end a kernel that has not set its handler yet, so it begins
// when the guest's first process runs.
func (r *guestRun) wakeTimers(booted string) {
	tick := time.NewTicker(alarmInterval)
	defer tick.Stop()
	for begun := false; ; {
		select {
		case <-r.ended:
			return
		case <-tick.C:
		}
		if !begun {
			_, err := os.Stat(booted)
			begun = err == nil
		}
		if begun {
			_ = r.kernel.Signal(syscall.SIGALRM) // it may have ended meanwhile
		}
	}
}
