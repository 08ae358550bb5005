package dev

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is one running child.
type process struct {
	id   string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has exited
	err  error         // how it exited, valid once done is closed

	started time.Time
}

// killed reports whether an exited process was ended by SIGKILL.
func (p *process) killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// signal sends a signal. A stopped child is continued too: it would handle no signal but SIGKILL.
func (p *process) signal(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig) // it may have exited meanwhile
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
}

// spawner starts children from one thread that lives as long as the program: the kernel sends a child
// its parent-death signal when the *thread* that started it ends.
type spawner struct {
	requests chan func()
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for start := range s.requests {
			start()
		}
	}()
	return s
}

// start starts a program with its output appended to a log, and echoed when echo is not nil.
func (s *spawner) start(id string, argv []string, logPath string, echo io.Writer) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: open its log: %w", id, err)
	}
	cmd := &exec.Cmd{
		Path: argv[0], Args: append([]string{"holdfast"}, argv[1:]...), Env: childEnv(os.Environ()),
		Stdout: log, Stderr: log,
		// A process group of its own keeps the terminal's SIGINT away: the supervisor stops children in order.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if echo != nil {
		cmd.Stdout = io.MultiWriter(log, echo)
		cmd.Stderr = cmd.Stdout
	}
	p := &process{id: id, cmd: cmd, done: make(chan struct{}), started: time.Now()}
	started := make(chan error)
	s.requests <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", id, errors.Join(err, log.Close()))
	}
	go func() {
		p.err = errors.Join(cmd.Wait(), log.Close())
		close(p.done)
	}()
	return p, nil
}

// childEnv removes variables that are meant for the supervisor alone.
func childEnv(env []string) []string {
	var out []string
	for _, e := range env {
		if !strings.HasPrefix(e, "HOLDFAST_CONFIG=") && !strings.HasPrefix(e, "CSI_ENDPOINT=") {
			out = append(out, e)
		}
	}
	return out
}
