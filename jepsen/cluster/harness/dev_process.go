package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// devProcess is the running `holdfast dev` of the cluster.
type devProcess struct {
	*workspace
	clients  *clients
	children *children

	cmd   *exec.Cmd
	done  chan error // gets the end of cmd, once
	mu    sync.Mutex
	lines []string // what it printed on stdout since it was started
}

// Launch starts `dev` without waiting for it.
func (d *devProcess) Launch() error {
	log, err := os.OpenFile(d.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	d.cmd = exec.Command(d.opts.Binary, d.devArgs()...)
	d.cmd.Env = append(os.Environ(), d.opts.Env...)
	d.cmd.Stderr = log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := d.cmd.Start(); err != nil {
		return fmt.Errorf("start holdfast dev: %w", err)
	}
	d.mu.Lock()
	d.lines = nil
	d.mu.Unlock()
	d.done = make(chan error, 1)
	go d.follow(d.cmd, out, d.done)
	return nil
}

func (d *devProcess) devArgs() []string {
	args := []string{"dev", "--dir", d.Dir, fmt.Sprintf("--supervise=%t", d.opts.Supervise)}
	if d.opts.Controllers != 0 {
		args = append(args, fmt.Sprintf("--controllers=%d", d.opts.Controllers))
	}
	if d.opts.Nodes != 0 {
		args = append(args, fmt.Sprintf("--nodes=%d", d.opts.Nodes))
	}
	return append(args, d.opts.Flags...)
}

// follow collects the lines of stdout, and sends the process's exit to done.
func (d *devProcess) follow(dev *exec.Cmd, out io.Reader, done chan<- error) {
	for s := bufio.NewScanner(out); s.Scan(); {
		d.mu.Lock()
		d.lines = append(d.lines, s.Text())
		d.mu.Unlock()
	}
	done <- dev.Wait()
}

// ReadyLine is the line with which the running `dev` reported that it is ready, empty before.
func (d *devProcess) ReadyLine() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, line := range d.lines {
		if strings.HasPrefix(line, "ready") {
			return line
		}
	}
	return ""
}

// AwaitReady waits for the line that starts with `ready`.
func (d *devProcess) AwaitReady(ctx context.Context) error {
	err := Poll(ctx, Patience, "holdfast dev to say ready", func() (bool, error) {
		select {
		case err := <-d.done:
			d.done <- err
			return false, Permanent(fmt.Errorf("holdfast dev ended: %w", err))
		default:
			return d.ReadyLine() != "", nil
		}
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, tail(d.LogPath(), 30))
	}
	return nil
}

// Stop ends `dev` with SIGTERM, which stops its children and keeps the data.
func (d *devProcess) Stop(ctx context.Context) error {
	if d.cmd == nil || d.cmd.Process == nil {
		return nil
	}
	d.clients.closeAll()
	defer func() { d.cmd = nil }()
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-d.done:
		return exitError(err)
	case <-ctx.Done():
	case <-time.After(Patience):
	}
	_ = d.cmd.Process.Kill()
	return errors.Join(fmt.Errorf("holdfast dev did not stop within %s of SIGTERM", Patience), <-d.done)
}

// Kill9 ends `dev` with SIGKILL; its children get a signal from the kernel or are killed here.
func (d *devProcess) Kill9(ctx context.Context) error {
	d.clients.closeAll()
	_ = d.cmd.Process.Kill()
	ended := <-d.done
	d.cmd = nil
	if err := d.children.killLeftovers(ctx); err != nil {
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
