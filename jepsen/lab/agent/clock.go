package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// setClock does one half of what a time daemon does. A step moves the clock, and the kernel then says that nobody sets it. Without a
// step it is disciplined by adjtimex, which is how the kernel knows that somebody does.
func setClock(by string) error {
	step, err := time.ParseDuration(by)
	if err != nil {
		return err
	}
	if step != 0 {
		at := unix.NsecToTimespec(time.Now().Add(step).UnixNano())
		return unix.ClockSettime(unix.CLOCK_REALTIME, &at)
	}
	const errors, status, disciplined = 0x4 | 0x8, 0x10, 0x1 // ADJ_MAXERROR and ADJ_ESTERROR; ADJ_STATUS; STA_PLL, without STA_UNSYNC
	_, err = unix.Adjtimex(&unix.Timex{Modes: errors | status, Status: disciplined})
	return err
}
