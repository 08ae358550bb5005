package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/plantedbug"
)

// catcher is a test program that can find bugs: a layer's short form, or a package's own tests.
type catcher struct {
	name    string // sim, raftsim, cluster, lab; else the package
	layer   bool
	program string // the package whose test program it is
	args    []string
	// wall bounds a catcher whose work is done by other processes, of which no processor time is counted; 0: none.
	wall time.Duration
}

// result is what became of one bug before one catcher.
type result struct {
	Bug     plantedbug.Bug `json:"bug"` // empty: the catcher without a bug
	Catcher string         `json:"catcher"`
	Caught  bool           `json:"caught"`
	CPU     time.Duration  `json:"cpu_ns"`
	Steps   string         `json:"steps,omitempty"` // as the layer counts them
	By      string         `json:"by,omitempty"`    // the test, or the layer's words
	Broken  string         `json:"broken,omitempty"`
}

// binary is where the catcher's program is, built with the tag.
func (c *catcher) binary(dir string) string {
	path, _ := filepath.Abs(filepath.Join(dir, strings.Trim(strings.ReplaceAll(c.program, "/", "-"), ".-")+".test"))
	return path
}

// build builds the catcher's program with the tag.
func (c *catcher) build(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the directory of programs: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-tags", "plantedbug", "-o", c.binary(dir), c.program)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the tests of %s with the bugs: %w\n%s", c.program, err, out)
	}
	return nil
}

// catch runs the catcher with the bug on. It has found it when its tests fail. One that used up its processor time has not.
func (c *catcher) catch(ctx context.Context, dir string, bug plantedbug.Bug, within time.Duration) (result, error) {
	limit := max(4*within, c.wall) // a machine that is busy makes processor time slow
	ctx, cancel := context.WithTimeout(ctx, 10*limit)
	defer cancel()
	script := fmt.Sprintf(`ulimit -t %d; exec "$0" "$@"`, int(within.Seconds()+0.5))
	if c.wall > 0 {
		script = `exec "$0" "$@"`
	}
	args := append([]string{"-c", script, c.binary(dir), "-test.failfast", "-test.timeout=0"}, c.args...)
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir = c.program
	cmd.Env = append(os.Environ(), plantedbug.Environment+"="+string(bug))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, time.Second
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return result{}, fmt.Errorf("run %s with %s: %w", c.name, bug, err)
	}
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return result{}, ctx.Err()
	}
	r := result{Bug: bug, Catcher: c.name, CPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	r.Caught = err != nil && ctx.Err() == nil && !outOfTime(cmd.ProcessState)
	if r.Caught {
		r.By, r.Steps = words(out.String())
	}
	return r, nil
}

// outOfTime tells a process that the limit of its processor time ended.
func outOfTime(p *os.ProcessState) bool {
	status, ok := p.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && (status.Signal() == syscall.SIGXCPU || status.Signal() == syscall.SIGKILL)
}

var (
	failedPattern = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	panicPattern  = regexp.MustCompile(`(?m)^(?:panic|fatal error): (.{1,120})`)
	seedPattern   = regexp.MustCompile(`\b(?:seed|schedule) (\d+)\b`)
	stepsPattern  = regexp.MustCompile(`\b(\d+) (?:steps|choices)\b`)
)

// words are which test failed, or how the program ended, and after how much.
func words(out string) (by, steps string) {
	by = "it ended"
	if m := panicPattern.FindStringSubmatch(out); m != nil {
		by = "panic: " + m[1]
	}
	if m := failedPattern.FindAllStringSubmatch(out, -1); m != nil {
		by = m[len(m)-1][1]
	}
	var parts []string
	if m := seedPattern.FindStringSubmatch(out); m != nil {
		parts = append(parts, "seed "+m[1])
	}
	if m := stepsPattern.FindStringSubmatch(out); m != nil {
		parts = append(parts, m[1]+" steps")
	}
	return by, strings.Join(parts, ", ")
}
