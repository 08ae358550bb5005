package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options say how a cluster is started.
type Options struct {
	Binary      string
	Controllers int // 3 when zero
	Nodes       int // 1 when zero
	Supervise   bool
	Flags       []string // further flags of `holdfast dev`
	Env         []string // further environment of it
	// ReadyWithin bounds the wait for `ready`; a minute when zero.
	ReadyWithin time.Duration
}

// Cluster is one developer's cluster in a directory of its own, which also holds
// the staging and target paths of the tests.
type Cluster struct {
	Base string // everything of this cluster
	Dir  string // --dir
	opts Options
	dev  *exec.Cmd
	done chan error // gets the end of dev, once
	*clients
	mu    sync.Mutex
	lines []string // what dev printed on stdout since it was started
}

// Start starts a new cluster and returns when it has printed `ready`. After an error nothing of it is
// left.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	made, err := os.MkdirTemp("", "holdfast-")
	if err != nil {
		return nil, err
	}
	base, err := filepath.EvalSymlinks(made) // as the kernel will name it
	if err != nil {
		return nil, err
	}
	c := &Cluster{Base: base, Dir: filepath.Join(base, "d"), opts: opts, clients: newClients()}
	if err := os.MkdirAll(c.Mounts(), 0o755); err != nil {
		return nil, err
	}
	if err := c.Resume(ctx); err != nil {
		return nil, errors.Join(err, c.Clean(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// Mounts is the directory below which staging and target paths are.
func (c *Cluster) Mounts() string { return filepath.Join(c.Base, "mnt") }

// LogPath is the file with all that `dev` printed.
func (c *Cluster) LogPath() string { return filepath.Join(c.Base, "dev.log") }

// Resume starts a stopped cluster again, on the same data, and returns when it has printed `ready`.
func (c *Cluster) Resume(ctx context.Context) error {
	if err := c.Launch(); err != nil {
		return err
	}
	return c.AwaitReady(ctx)
}

// Launch starts `dev` without waiting for it.
func (c *Cluster) Launch() error {
	log, err := os.OpenFile(c.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	c.dev = exec.Command(c.opts.Binary, c.devArgs()...)
	c.dev.Env = append(os.Environ(), c.opts.Env...)
	c.dev.Stderr = log
	c.dev.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	out, err := c.dev.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.dev.Start(); err != nil {
		return fmt.Errorf("start holdfast dev: %w", err)
	}
	c.mu.Lock()
	c.lines = nil
	c.mu.Unlock()
	c.done = make(chan error, 1)
	go c.follow(c.dev, out, c.done)
	return nil
}

func (c *Cluster) devArgs() []string {
	args := []string{"dev", "--dir", c.Dir, fmt.Sprintf("--supervise=%t", c.opts.Supervise)}
	if c.opts.Controllers != 0 {
		args = append(args, fmt.Sprintf("--controllers=%d", c.opts.Controllers))
	}
	if c.opts.Nodes != 0 {
		args = append(args, fmt.Sprintf("--nodes=%d", c.opts.Nodes))
	}
	return append(args, c.opts.Flags...)
}

// follow collects the lines of stdout, and sends the process's exit to done.
func (c *Cluster) follow(dev *exec.Cmd, out io.Reader, done chan<- error) {
	for s := bufio.NewScanner(out); s.Scan(); {
		c.mu.Lock()
		c.lines = append(c.lines, s.Text())
		c.mu.Unlock()
	}
	done <- dev.Wait()
}

// ReadyLine is the line with which the running `dev` reported that it is ready, empty before.
func (c *Cluster) ReadyLine() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.lines {
		if strings.HasPrefix(line, "ready") {
			return line
		}
	}
	return ""
}

// AwaitReady waits for the line that starts with `ready`.
func (c *Cluster) AwaitReady(ctx context.Context) error {
	within := c.opts.ReadyWithin
	if within == 0 {
		within = time.Minute
	}
	err := Poll(ctx, within, "holdfast dev to say ready", func() (bool, error) {
		select {
		case err := <-c.done:
			c.done <- err
			return false, Permanent(fmt.Errorf("holdfast dev ended: %w", err))
		default:
			return c.ReadyLine() != "", nil
		}
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, tail(c.LogPath(), 30))
	}
	return nil
}

// Stop ends `dev` with SIGTERM, which stops its children and keeps the data.
func (c *Cluster) Stop(ctx context.Context) error {
	if c.dev == nil || c.dev.Process == nil {
		return nil
	}
	c.closeAll()
	defer func() { c.dev = nil }()
	_ = c.dev.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-c.done:
		return exitError(err)
	case <-ctx.Done():
	case <-time.After(time.Minute):
	}
	_ = c.dev.Process.Kill()
	return errors.Join(errors.New("holdfast dev did not stop within a minute of SIGTERM"), <-c.done)
}

// Kill9 ends `dev` with SIGKILL; its children get a signal from the kernel or are killed here.
func (c *Cluster) Kill9(ctx context.Context) error {
	c.closeAll()
	_ = c.dev.Process.Kill()
	ended := <-c.done
	c.dev = nil
	if err := c.killLeftovers(ctx); err != nil {
		return errors.Join(err, ended)
	}
	return nil
}

func exitError(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("holdfast dev stopped with an error: %w", err)
	}
	return err
}

// Layout reads cluster.json as it is now.
func (c *Cluster) Layout() (Layout, error) { return readLayout(c.Dir) }

// Clean stops the cluster, has `dev clean` remove all, proves that no process,
// mount or loop device is left, and removes the directory.
func (c *Cluster) Clean(ctx context.Context) error {
	stopped := c.Stop(ctx)
	killed := c.killLeftovers(ctx)
	var cleaned error
	if res := c.Run(ctx, "dev", "clean", "--dir", c.Dir); res.Code != 0 {
		cleaned = fmt.Errorf("dev clean exited %d: %s", res.Code, res.Stderr)
	}
	left := c.Leftovers(ctx)
	if err := errors.Join(stopped, killed, cleaned, left); err != nil {
		return fmt.Errorf("clean %s: %w", c.Base, err)
	}
	return os.RemoveAll(c.Base)
}

// tail is the last lines of a file, for error messages.
func tail(path string, lines int) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Logs is the end of what `dev` and every child wrote, at most so many lines of each.
func (c *Cluster) Logs(lines int) string {
	paths, _ := filepath.Glob(filepath.Join(c.Dir, "*.log"))
	more, _ := filepath.Glob(filepath.Join(c.Dir, "*", "*.log"))
	deeper, _ := filepath.Glob(filepath.Join(c.Dir, "*", "*", "*.log"))
	paths = append(append(append([]string{c.LogPath()}, paths...), more...), deeper...)
	var all strings.Builder
	for _, path := range paths {
		fmt.Fprintf(&all, "==> %s <==\n%s\n", strings.TrimPrefix(path, c.Base+"/"), tail(path, lines))
	}
	return all.String()
}

// ChildLog is all that one child logged.
func (c *Cluster) ChildLog(id string) string {
	raw, err := os.ReadFile(filepath.Join(c.Dir, "log", id+".log"))
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// Panics returns an error when a child's log contains a panic or a data race.
func (c *Cluster) Panics() error {
	paths, err := filepath.Glob(filepath.Join(c.Dir, "log", "*.log"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, word := range []string{"\npanic: ", "\nfatal error: ", "WARNING: DATA RACE"} {
			if i := strings.Index("\n"+string(raw), word); i >= 0 {
				return fmt.Errorf("%s: %s", path, string(raw[i:min(len(raw), i+3000)]))
			}
		}
	}
	return nil
}
