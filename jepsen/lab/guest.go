package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/lab/place"
)

const (
	// A guest boots in 3 to 5 seconds, and in many times that where others have the processors.
	bootTimeout = 3 * time.Minute
	stopTimeout = 2 * time.Minute
)

// ErrDown: the guest is not running.
var ErrDown = errors.New("the guest is not running")

// Guest is one machine: a kernel with a root of its own, which vanishes when it ends, and
// disks that stay.
type Guest struct {
	// Index is its number, from 1. Its host name is n<Index>.
	Index int
	lab   *Lab
	mu    sync.Mutex
	run   *guestRun // nil while it is down
	disks map[int]string
}

// guestRun is one run of a guest, from boot to its end.
type guestRun struct {
	kernel *os.Process   // its first process
	ended  chan struct{} // closed when that ended
	err    error         // how it exited, once ended is closed
	conns  *agentConns   // the connections to its agent
}

func newGuest(l *Lab, i int) *Guest {
	return &Guest{Index: i, lab: l, disks: map[int]string{}}
}

// Name is the guest's host name.
func (g *Guest) Name() string { return fmt.Sprintf("n%d", g.Index) }

// Dir is the guest's directory on the host. The guest sees the directory lab in it at /lab.
func (g *Guest) Dir() string { return g.lab.paths.Guest(g.Index) }

// Shared is the directory on the host that the guest has at /lab, for both to write to. What
// a guest wrote there is on the host when it closed the file.
func (g *Guest) Shared() string { return filepath.Join(g.Dir(), "lab") }

// prepare makes the guest's directories and disks.
func (g *Guest) prepare(ctx context.Context) error {
	for _, dir := range []string{g.lab.paths.UML(g.Index), filepath.Join(g.Shared(), "log")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := g.makeDisk(stateDisk, g.lab.config.StateDisk); err != nil {
		return err
	}
	for i, size := range g.lab.config.Disks {
		if err := g.makeDisk(firstDisk+i, size); err != nil {
			return err
		}
	}
	return tool(ctx, "", "mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", g.disks[stateDisk])
}

// Boot starts the guest and returns when its agent answers: 3 to 5 seconds.
func (g *Guest) Boot(ctx context.Context) error {
	if g.current() != nil {
		return fmt.Errorf("boot %s: it runs", g.Name())
	}
	// A kernel that ended by itself leaves processes behind, with its disks and taps.
	if err := place.Kill(g.Dir()); err != nil {
		return fmt.Errorf("boot %s: %w", g.Name(), err)
	}
	if err := g.launch(); err != nil {
		return fmt.Errorf("boot %s: %w", g.Name(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	if err := g.awaitAgent(ctx); err != nil {
		return errors.Join(fmt.Errorf("boot %s: %w\n%s", g.Name(), err, tail(g.console(), 15)), g.Crash())
	}
	return nil
}

func (g *Guest) console() string { return filepath.Join(g.Dir(), "console.log") }

func (g *Guest) booted() string { return filepath.Join(g.Shared(), bootedNote) }

func (g *Guest) launch() error {
	console, err := os.OpenFile(g.console(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = console.Close() }() // the guest has its own
	if err := os.Remove(g.booted()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err // the last boot's
	}
	cmd := exec.Command(g.lab.agent(), append([]string{"launch", g.Dir()}, g.commandLine()...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TMPDIR=/dev/shm"}
	cmd.Stdout, cmd.Stderr, cmd.Dir = console, console, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	lowered := lowerAs(cmd.Process.Pid)
	run := &guestRun{kernel: cmd.Process, ended: make(chan struct{}), conns: newAgentConns()}
	g.mu.Lock()
	g.run = run
	g.mu.Unlock()
	go run.wakeTimers(g.booted())
	go func() {
		run.err = cmd.Wait()
		close(run.ended)
		run.conns.closeAll()
	}()
	return lowered
}

// commandLine is the kernel's.
func (g *Guest) commandLine() []string {
	l, k := g.lab, guestKernel()
	argv := []string{k.program, fmt.Sprintf("mem=%dM", l.config.Memory/mib), "umid=" + g.Name(), "uml_dir=" + l.paths.UML(g.Index),
		"root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "init=" + filepath.Join(l.bin(), "init.sh"),
		fmt.Sprintf("node=%d", g.Index), "lab=" + g.Dir(), "top=" + l.Dir(), "modules=" + k.modules,
		fmt.Sprintf("net=%d,%d,%d", l.subnet(Replication), l.subnet(Management), l.subnet(API)),
		"panic=1", "noreboot", "initcall_blacklist=raid6_select_algo", "con=null", "con0=null,fd:1", "ssl=null"}
	argv = append(argv, k.options...)
	for _, n := range Networks {
		argv = append(argv, fmt.Sprintf("%s:transport=tap,ifname=%s,mac=%s,depth=128,gro=1",
			n.Interface(), l.paths.Tap(letters[n], g.Index), g.mac(n)))
	}
	for _, letter := range g.diskLetters() {
		argv = append(argv, fmt.Sprintf("ubd%c=%s", letter, g.disks[letter]))
	}
	return argv
}

// current returns the guest's present run, nil when there is none.
func (g *Guest) current() *guestRun {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.run == nil {
		return nil
	}
	select {
	case <-g.run.ended:
		return nil
	default:
		return g.run
	}
}

// KernelPID is the host's process that is the guest's kernel, 0 while it is down.
func (g *Guest) KernelPID() int {
	if run := g.current(); run != nil {
		return run.kernel.Pid
	}
	return 0
}

// Running reports whether the guest's kernel runs.
func (g *Guest) Running() bool { return g.current() != nil }

// closeConns closes the connections to the guest's agent, which ends the calls in flight.
func (g *Guest) closeConns() {
	if run := g.current(); run != nil {
		run.conns.closeAll()
	}
}

// Crash is a loss of power: all processes of the guest are killed at once, and what its
// kernel held in memory is lost. What it had sent to its disks stays. A guest that is down
// stays down.
func (g *Guest) Crash() error {
	run := g.current()
	if run != nil {
		_ = syscall.Kill(-run.kernel.Pid, syscall.SIGKILL) // kills all at once; below the remaining processes are killed
	}
	if err := place.Kill(g.Dir()); err != nil {
		return fmt.Errorf("crash %s: %w", g.Name(), err)
	}
	if run != nil {
		<-run.ended
	}
	return nil
}

// Stop powers the guest off gracefully: data is synced, but processes are not asked to exit. A guest that
// does not stop within two minutes is killed, and that is an error.
func (g *Guest) Stop(ctx context.Context) error {
	run := g.current()
	if run == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	err := g.post(ctx, "/stop", "")
	if err == nil {
		select {
		case <-run.ended:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if killed := errors.Join(err, g.Crash()); killed != nil {
		return fmt.Errorf("stop %s: %w", g.Name(), killed)
	}
	return nil
}

// Pause stops the guest's time, as a long pause of its host would, until Resume. It stops the guest's kernel: a process of the guest
// that computes may go on until it asks the kernel for something.
func (g *Guest) Pause() error { return g.signal(syscall.SIGSTOP) }

// Resume ends a pause.
func (g *Guest) Resume() error { return g.signal(syscall.SIGCONT) }

func (g *Guest) signal(sig syscall.Signal) error {
	run := g.current()
	if run == nil {
		return fmt.Errorf("signal %s: %w", g.Name(), ErrDown)
	}
	return run.kernel.Signal(sig)
}

// Console is all that the guest's kernels printed, in every boot.
func (g *Guest) Console() string {
	text, err := os.ReadFile(g.console())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Dmesg is what the kernel that runs now has printed.
func (g *Guest) Dmesg(ctx context.Context) (string, error) {
	out, code, err := g.Exec(ctx, "dmesg")
	if err == nil && code != 0 {
		err = fmt.Errorf("read the kernel's log of %s: exit code %d: %s", g.Name(), code, out)
	}
	return out, err
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
