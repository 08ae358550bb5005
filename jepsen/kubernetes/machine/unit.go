package machine

import (
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Unit is a program that the machine keeps running: one that ends is started again.
type Unit struct {
	Name string
	Args []string // the program's path first
	Env  []string
}

// restartAfter is how long after its end a unit is started again.
const restartAfter = 500 * time.Millisecond

// Run has the machine run these units and no others.
func Run(c Config, units ...Unit) error {
	byName := map[string]Unit{}
	for _, u := range units {
		byName[u.Name] = u
	}
	c.guest = c.Kernel != nil
	if err := writeJSON(c.unitsFile(), byName); err != nil || c.guest {
		return err // a guest looks at the file by itself
	}
	return c.hangUp()
}

// runOutside has a machine with a kernel of its own run that.
func (c Config) runOutside(kernel Unit) error {
	if err := writeJSON(c.unitsFile(), map[string]Unit{kernel.Name: kernel}); err != nil {
		return err
	}
	return c.hangUp()
}

func (c Config) hangUp() error {
	pid, err := c.PID()
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGHUP)
}

func (c Config) unitsFile() string {
	if c.guest {
		return c.path("guest-units.json")
	}
	return c.path("units.json")
}

// Add has the machine run these units beside those that it runs. Of one name the new one counts.
func Add(c Config, units ...Unit) error {
	c.guest = c.Kernel != nil
	all, err := c.Units()
	if err != nil {
		return err
	}
	for _, u := range units {
		all[u.Name] = u
	}
	return Run(c, slices.Collect(maps.Values(all))...)
}

// Drop has the machine run a unit no more.
func Drop(c Config, unit string) error {
	all, err := c.Units()
	if err != nil {
		return err
	}
	delete(all, unit)
	return Run(c, slices.Collect(maps.Values(all))...)
}

// Units are what the machine was told to run, by name.
func (c Config) Units() (map[string]Unit, error) {
	units := map[string]Unit{}
	err := readJSON(c.unitsFile(), &units)
	if os.IsNotExist(err) {
		return units, nil
	}
	return units, err
}

// supervisor is what a machine's first process does: it starts units, starts them again, and reaps all that ends.
type supervisor struct {
	config Config
	mu     sync.Mutex
	wanted map[string]Unit
	pids   map[int]string // of running units
}

func (c Config) supervise() error {
	s := &supervisor{config: c, pids: map[int]string{}}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGCHLD)
	s.reload()
	file, changed := ready, make(<-chan time.Time)
	if c.guest {
		file, changed = guestReady, time.Tick(guestLooks)
	}
	if err := os.WriteFile(c.path(file), nil, 0o644); err != nil {
		return err
	}
	for {
		select {
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				s.reload()
			}
		case <-changed:
			s.reload()
			s.answer()
		}
		s.reap()
	}
}

// guestLooks is how often a guest, whose processes the host cannot signal, looks at what it is told.
const guestLooks = 300 * time.Millisecond

// reload starts what is new, and ends what is no longer wanted or wanted otherwise: that is started again once it has ended.
func (s *supervisor) reload() {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted, err := s.config.Units()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	was := s.wanted
	s.wanted = wanted
	running := map[string]bool{}
	for pid, name := range s.pids {
		running[name] = true
		if now, ok := wanted[name]; !ok || !slices.Equal(now.Args, was[name].Args) || !slices.Equal(now.Env, was[name].Env) {
			syscall.Kill(pid, syscall.SIGTERM) //nolint:errcheck // it may have ended
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if !running[name] {
			s.start(wanted[name])
		}
	}
}

func (s *supervisor) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err != nil || pid <= 0 {
			return
		}
		if name, ok := s.pids[pid]; ok {
			delete(s.pids, pid)
			s.ended(name, status)
		}
	}
}

func (s *supervisor) ended(name string, status syscall.WaitStatus) {
	fmt.Fprintf(os.Stderr, "%s %s ended: exit code %d, signal %d\n", time.Now().Format(time.TimeOnly), name, status.ExitStatus(), status.Signal())
	time.AfterFunc(restartAfter, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if u, ok := s.wanted[name]; ok && !slices.Contains(slices.Collect(maps.Values(s.pids)), name) {
			s.start(u)
		}
	})
}

func (s *supervisor) start(u Unit) {
	out, err := os.OpenFile(s.config.Log(u.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer out.Close()
	none, err := os.Open(os.DevNull)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer none.Close()
	p, err := os.StartProcess(u.Args[0], u.Args, &os.ProcAttr{
		Env: append(os.Environ(), u.Env...), Files: []*os.File{none, out, out}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "start %s: %v\n", u.Name, err)
		return
	}
	s.pids[p.Pid] = u.Name
	p.Release() //nolint:errcheck // reap waits for it
}
