package hostcheck

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor/run"
)

const (
	// commandTimeout bounds a command that prints a version or a configuration.
	commandTimeout = 5 * time.Second
	dialTimeout    = 2 * time.Second
)

// ThisSystem is the machine that this process runs on.
func ThisSystem() System {
	runner := run.New()
	return System{
		Root: "/", LookPath: runner.LookPath, Adjtime: adjtime, Dial: dial, Now: time.Now, UID: os.Geteuid,
		Run: command(runner, false), RunBoth: command(runner, true),
		Statfs: func(path string) (st unix.Statfs_t, err error) {
			if err := unix.Statfs(path, &st); err != nil {
				return st, fmt.Errorf("statfs %s: %w", path, err)
			}
			return st, nil
		},
	}
}

// command runs the host's commands, which only print.
func command(runner *run.Runner, both bool) func(context.Context, string, ...string) (string, error) {
	return func(ctx context.Context, tool string, args ...string) (string, error) {
		var out bytes.Buffer
		_, err := runner.Run(ctx, run.Command{Tool: tool, Args: args, Timeout: commandTimeout, Stdout: &out, BothStreams: both})
		if err != nil {
			return "", err // a stuck child may still write to the buffer
		}
		return out.String(), nil
	}
}

// ClockSynchronised tells whether something sets this host's clock, as its kernel knows it.
func ClockSynchronised() bool {
	clock, err := adjtime()
	return err == nil && clock.Synchronised
}

// adjtime reads the kernel's clock discipline, which needs no privilege.
func adjtime() (Clock, error) {
	const unsynchronised = 0x40 // STA_UNSYNC
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return Clock{}, fmt.Errorf("adjtimex: %w", err)
	}
	return Clock{
		Synchronised: state != unix.TIME_ERROR && t.Status&unsynchronised == 0,
		MaxError:     time.Duration(t.Maxerror) * time.Microsecond,
	}, nil
}

func dial(ctx context.Context, address string) error {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
