package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// New makes a lab for a test and closes it at the test's end. Where a lab cannot run, the
// test is skipped, or fails when the environment has HOLDFAST_REQUIRE_LAB or CI. A failed
// test gets the end of the guests' logs, and all of them in $HOLDFAST_LAB_LOGS when set.
func New(tb testing.TB, config Config) *Lab {
	tb.Helper()
	RequireLab(tb)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 15*time.Minute)
	defer cancel()
	l, err := Start(ctx, config)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			l.dumpLogs(tb)
		}
		if err := l.Close(); err != nil {
			tb.Errorf("%v", err)
		}
	})
	return l
}

// RequireLab skips or fails the test where no lab can run.
func RequireLab(tb testing.TB) {
	tb.Helper()
	switch err := WhyUnavailable(); {
	case err == nil:
	case isRequired():
		tb.Fatalf("%v", err)
	default:
		tb.Skipf("%v", err)
	}
}

// dumpLogs prints the end of the logs and keeps all of them where that is asked for.
func (l *Lab) dumpLogs(tb testing.TB) {
	tb.Helper()
	for _, path := range l.logs() {
		name, _ := filepath.Rel(l.Dir(), path) // it is below
		tb.Logf("==> %s <==\n%s", name, tail(path, 25))
	}
	if dir := os.Getenv(LogsVariable); dir != "" {
		if err := l.Collect(filepath.Join(dir, filepath.Base(tb.Name()))); err != nil {
			tb.Logf("%v", err)
		}
	}
}

// logs are all files of logs on the host.
func (l *Lab) logs() []string {
	consoles, _ := filepath.Glob(filepath.Join(l.Dir(), "n*", "console.log")) // the pattern is good
	others, _ := filepath.Glob(filepath.Join(l.Dir(), "n*", "lab", "log", "*"))
	return append(consoles, others...)
}

// Collect copies the guests' logs to a directory, which is made: n1-console.log and so on.
func (l *Lab) Collect(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("collect logs: %w", err)
	}
	var failed []error
	for _, path := range l.logs() {
		for _, g := range l.guests {
			if name, err := filepath.Rel(g.Dir(), path); err == nil && filepath.IsLocal(name) {
				failed = append(failed, copyFile(path, filepath.Join(dir, g.Name()+"-"+filepath.Base(path))))
			}
		}
	}
	return errors.Join(failed...)
}

// MustBoot boots all guests.
func (l *Lab) MustBoot(tb testing.TB) {
	tb.Helper()
	if err := l.Boot(tb.Context()); err != nil {
		tb.Fatalf("%v", err)
	}
}

// MustExec is Exec of a script that has to exit with 0; it answers what was printed.
func (g *Guest) MustExec(tb testing.TB, script string) string {
	tb.Helper()
	out, code, err := g.Exec(tb.Context(), script)
	if err != nil || code != 0 {
		tb.Fatalf("in %s, %q: exit code %d, %v:\n%s", g.Name(), script, code, err, out)
	}
	return out
}

// Await asks until the answer is yes, every 50 ms, and fails the test when it is not in
// time: the error has the last answer.
func Await(tb testing.TB, within time.Duration, what string, ask func() (yes bool, last string)) {
	tb.Helper()
	for end := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		yes, last := ask()
		switch {
		case yes:
			return
		case time.Now().After(end):
			tb.Fatalf("not after %s: %s; it is: %s", within, what, last)
		}
	}
}

// MustAdmin is Admin of a command that has to exit with 0; it answers what was printed. While what the command needs cannot
// be reached it is repeated, as an operator is told to.
func (c *Cluster) MustAdmin(tb testing.TB, args ...string) (out string) {
	tb.Helper()
	Await(tb, execTimeout, "holdfast "+strings.Join(args, " ")+" is done", func() (bool, string) {
		var code int
		var err error
		out, code, err = c.Admin(context.WithoutCancel(tb.Context()), args...)
		if err == nil && code != 0 && code != Unavailable {
			tb.Fatalf("holdfast %s: exit code %d: %s", strings.Join(args, " "), code, out)
		}
		return err == nil && code == 0, fmt.Sprint(out, err)
	})
	return out
}

// MustAsk is MustAdmin of a command that answers JSON, which is read into a value.
func (c *Cluster) MustAsk(tb testing.TB, into any, args ...string) {
	tb.Helper()
	out := c.MustAdmin(tb, append(slices.Clone(args), "-o", "json")...)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		tb.Fatalf("holdfast %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// AwaitInodeTables waits until no filesystem of the guest has inode tables left to zero (ext4's lazy_itable_init): a pool
// allocates for them meanwhile, which would be counted against what is given back.
func AwaitInodeTables(tb testing.TB, g *Guest, within time.Duration) {
	tb.Helper()
	Await(tb, within, g.Name()+" has initialised its inode tables", func() (bool, string) {
		out, _, err := g.Exec(tb.Context(), "grep -lx ext4lazyinit /proc/[0-9]*/comm 2>/dev/null; true")
		return err == nil && out == "", fmt.Sprint(out, err)
	})
}
