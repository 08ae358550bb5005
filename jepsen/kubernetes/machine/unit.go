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
	if err := writeJSON(c.path("units.json"), byName); err != nil {
		return err
	}
	pid, err := c.PID()
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGHUP)
}

// Add has the machine run these units beside those that it runs. Of one name the new one counts.
func Add(c Config, units ...Unit) error {
	all, err := c.Units()
	if err != nil {
		return err
	}
	for _, u := range units {
		all[u.Name] = u
	}
	return Run(c, slices.Collect(maps.Values(all))...)
}

// Units are what the machine was told to run, by name.
func (c Config) Units() (map[string]Unit, error) {
	units := map[string]Unit{}
	err := readJSON(c.path("units.json"), &units)
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
	if err := os.WriteFile(c.path("ready"), nil, 0o644); err != nil {
		return err
	}
	for sig := range signals {
		if sig == syscall.SIGHUP {
			s.reload()
		}
		s.reap()
	}
	return nil
}

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
	p, err := os.StartProcess(u.Args[0], u.Args, &os.ProcAttr{
		Env: append(os.Environ(), u.Env...), Files: []*os.File{nil, out, out}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "start %s: %v\n", u.Name, err)
		return
	}
	s.pids[p.Pid] = u.Name
	p.Release() //nolint:errcheck // reap waits for it
}
