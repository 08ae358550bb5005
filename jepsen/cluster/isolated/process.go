package isolated

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// process is one running process of a member.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has exited
}

// Start starts the member's process on its host. It does not wait until it serves.
func (m *Member) Start(context.Context) error {
	argv := m.argv()
	m.mu.Lock()
	m.wanted = true
	err := m.spawn(argv)
	m.mu.Unlock()
	return errors.Join(err, m.cluster.writeLayout())
}

// spawn starts a process while there is none; the member is locked.
func (m *Member) spawn(argv []string) error {
	if m.process != nil {
		return nil
	}
	log, err := os.OpenFile(m.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", m.ID, err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	cmd := exec.Command(m.cluster.opts.Binary, argv...)
	cmd.Env = append(os.Environ(), m.cluster.opts.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := m.host.Start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", m.ID, err)
	}
	m.process = &process{cmd: cmd, done: make(chan struct{})}
	go m.await(m.process)
	return nil
}

// await notes how a process ended.
func (m *Member) await(p *process) {
	err := p.cmd.Wait()
	m.mu.Lock()
	m.process, m.ended = nil, fmt.Sprint(err)
	if err == nil {
		m.ended = "exit status 0"
	}
	m.mu.Unlock()
	_ = m.cluster.writeLayout() // the next change writes it again
	close(p.done)
	m.restart()
}

// running is the running process, nil when there is none.
func (m *Member) running() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// Running tells whether the member has a process.
func (m *Member) Running() bool { return m.running() != nil }

// PID is the member's process, 0 when there is none.
func (m *Member) PID() int {
	if p := m.running(); p != nil {
		return p.cmd.Process.Pid
	}
	return 0
}

// Exited says how the last process of the member ended, empty when none has.
func (m *Member) Exited() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

// unwant has the member stay as it is when its process ends, and answers the process.
func (m *Member) unwant() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wanted = false
	return m.process
}

// Stop ends the member's process in order, and it stays ended.
func (m *Member) Stop(ctx context.Context) error {
	p := m.unwant()
	if p == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	case <-time.After(harness.Patience):
	}
	return errors.Join(fmt.Errorf("stop %s: it did not stop within %s of SIGTERM", m.ID, harness.Patience), m.Kill())
}

// Kill ends the member's process with SIGKILL, and it stays ended.
func (m *Member) Kill() error {
	p := m.unwant()
	if p == nil {
		return nil
	}
	_ = p.cmd.Process.Kill() // it may have ended
	select {
	case <-p.done:
		return nil
	case <-time.After(harness.Patience):
		return fmt.Errorf("kill %s: process %d is still there after %s", m.ID, p.cmd.Process.Pid, harness.Patience)
	}
}

// ErrNoProcess: the member has no process.
var ErrNoProcess = errors.New("the member has no process")

// Pause stops the member's process until Resume; it returns when no thread of it runs.
func (m *Member) Pause() error {
	p := m.running()
	if p == nil {
		return fmt.Errorf("pause %s: %w", m.ID, ErrNoProcess)
	}
	if err := harness.StopProcess(p.cmd.Process.Pid); err != nil {
		return fmt.Errorf("pause %s: %w", m.ID, ofProcess(p.cmd.Process.Pid, err))
	}
	return nil
}

// ofProcess is an error about a process, or that it has ended meanwhile.
func ofProcess(pid int, err error) error {
	stat, readErr := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if _, state, found := strings.Cut(string(stat), ") "); readErr != nil || found && strings.ContainsAny(state[:1], "ZX") {
		return errors.Join(ErrNoProcess, err)
	}
	return err
}

// Resume lets a paused process go on; without a process it does nothing.
func (m *Member) Resume() error {
	p := m.running()
	if p == nil {
		return nil
	}
	err := p.cmd.Process.Signal(syscall.SIGCONT)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
