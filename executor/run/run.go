package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// DefaultTimeout bounds a command whose Timeout is zero.
const DefaultTimeout = 60 * time.Second

// killGrace is how long a killed child may take to exit before it counts as stuck.
const killGrace = 2 * time.Second

// environment is the complete environment of every command: messages in English, nothing
// inherited.
var environment = []string{"LC_ALL=C", "LANG=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"}

// Command is one call of a tool.
type Command struct {
	Tool string   // a name without a path, such as "mkfs.ext4"
	Args []string // without the tool's name; they hold no secret
	// Root is the folder that the command has for its root, as the kernel's own commands have the host's; Tool is then an
	// absolute path in it. Empty: the tool is looked up.
	Root    string
	Timeout time.Duration // zero: DefaultTimeout
	// Stdin is what the command reads from its standard input, which is closed without it. It is the only way for a
	// secret into a command: others see its arguments and its environment.
	Stdin Secret
	// Stdout receives the complete output, which Run then does not return. It is written to until
	// Run returns, or, if that returns an Error, until its Stuck channel is closed.
	Stdout io.Writer
	// BothStreams has stderr go where stdout goes, of commands that print what is wanted on either.
	BothStreams bool
	// OutlivesParent keeps the command running when this process is killed. It is for tools that
	// must not be interrupted and that hold a lock of their own, on which a later run waits.
	OutlivesParent bool
}

// Runner runs commands. It is safe for concurrent use.
type Runner struct {
	finder finder
	stuck  atomic.Int64
	grace  time.Duration
}

// New returns a runner that finds tools in the system's directories only.
func New() *Runner {
	return &Runner{finder: finder{dirs: systemDirs}, grace: killGrace}
}

// Stuck returns how many children survived SIGKILL and have not exited yet.
func (r *Runner) Stuck() int { return int(r.stuck.Load()) }

// LookPath returns the absolute path of a tool; a *MissingError names the package to install.
func (r *Runner) LookPath(tool string) (string, error) { return r.finder.lookPath(tool) }

// Run waits for the command and returns what it printed to stdout, at most
// maxOutputBytes bytes. A failure is an *Error, or a *MissingError before anything ran.
func (r *Runner) Run(ctx context.Context, c Command) ([]byte, error) {
	path, err := r.program(c)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("run %s: %w", c.Tool, err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeoutOrDefault(c.Timeout))
	defer cancel()
	child := newChild(path, c)
	go child.run()
	if err := <-child.started; err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return r.waitChild(ctx, child, c.Tool)
}

// program is the path of a command's program in its root.
func (r *Runner) program(c Command) (string, error) {
	switch {
	case c.Root == "":
		return r.LookPath(c.Tool)
	case !filepath.IsAbs(c.Tool):
		return "", fmt.Errorf("run %s in the root %s: it is not an absolute path", c.Tool, c.Root)
	}
	return c.Tool, nil
}

// waitChild returns what the child printed once it has exited, and kills it when the context ends.
func (r *Runner) waitChild(ctx context.Context, child *child, tool string) ([]byte, error) {
	select {
	case <-child.done:
	case <-ctx.Done():
		select {
		case <-child.done: // it exited before; another process may have its pid by now
		default:
			return nil, r.kill(child, tool, ctx.Err())
		}
	}
	return child.stdout.bytes(), child.exitError(tool, nil)
}

// kill kills the child's process group and returns the error, which says whether the child exited
// in time.
func (r *Runner) kill(child *child, tool string, cause error) error {
	// The child leads its own group, so its pid is the group's id.
	_ = syscall.Kill(-child.cmd.Process.Pid, syscall.SIGKILL)
	timer := time.NewTimer(r.grace)
	defer timer.Stop()
	select {
	case <-child.done:
		return child.exitError(tool, cause)
	case <-timer.C:
	}
	r.stuck.Add(1)
	go func() {
		<-child.done
		r.stuck.Add(-1)
	}()
	return &Error{Tool: tool, Code: -1, Output: child.message(), TimedOut: true, exited: child.done, cause: cause}
}

func timeoutOrDefault(d time.Duration) time.Duration {
	if d <= 0 {
		return DefaultTimeout
	}
	return d
}

// child is one running command.
type child struct {
	cmd            *exec.Cmd
	stdout, stderr tailBuffer
	stdin          Secret
	files          []outputFile // of a child that may outlive this process
	started        chan error
	done           chan struct{}
	err            error // of Wait; valid once done is closed
}

func newChild(path string, command Command) *child {
	c := &child{started: make(chan error, 1), done: make(chan struct{}), stdin: command.Stdin}
	c.cmd = exec.Command(path, command.Args...)
	c.cmd.Env, c.cmd.Dir = environment, "/"
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	if len(command.Stdin) > 0 {
		c.cmd.Stdin = bytes.NewReader(command.Stdin)
	}
	if command.Stdout != nil {
		c.cmd.Stdout = command.Stdout
	}
	if command.BothStreams {
		c.cmd.Stderr = c.cmd.Stdout
	}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if command.Root != "" && filepath.Clean(command.Root) != "/" {
		c.cmd.SysProcAttr.Chroot = command.Root // else it would need a capability for what it has
	}
	if command.OutlivesParent {
		c.openOutputFiles()
		return c
	}
	// A child must not continue when the node process is killed: the next process may start the
	// same tool on the same device.
	c.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return c
}

// run starts the child and waits for it on one thread: Pdeathsig is sent when the thread that
// forked exits, not the process.
func (c *child) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	c.started <- err
	if err != nil {
		c.readOutputFiles()
		return
	}
	c.err = c.cmd.Wait()
	c.readOutputFiles()
	close(c.done)
}

// exitError is nil when the child exited with 0 and was not killed.
func (c *child) exitError(tool string, cause error) error {
	if c.err == nil && cause == nil {
		return nil
	}
	e := &Error{Tool: tool, Code: -1, Output: c.message(), TimedOut: errors.Is(cause, context.DeadlineExceeded), cause: cause}
	var exit *exec.ExitError
	if errors.As(c.err, &exit) {
		e.Code = exit.ExitCode()
	}
	return e
}

// message is the end of stderr. Of a command that was given a secret it is only that when nothing
// of it can be the secret.
func (c *child) message() string { return c.stdin.hide(c.stderr.lastLine()) }
