package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/jepsen/lab/place"
)

// Lab is a number of guests and their networks. All methods may be called concurrently, except those that
// start or stop the same guest.
type Lab struct {
	Number        int
	config        Config
	paths         place.Paths
	guests        []*Guest
	guard         *exec.Cmd
	guardPipe     io.Closer // the guard removes the lab when it is closed
	mu            sync.Mutex
	networkFaults networkFaults
	// cluster is the cluster in the guests, nil when there is none.
	cluster *Cluster
	closed  error
	once    sync.Once
}

// Start creates a lab: its directory, its disks, its networks; it boots no guest. After an error nothing of
// it is left. Remains of an earlier lab of the same number are removed first.
func Start(ctx context.Context, config Config) (*Lab, error) {
	config = config.withDefaults()
	if err := errors.Join(config.check(), WhyUnavailable()); err != nil {
		return nil, err
	}
	lock, number, err := lockNumber(config.Number)
	if err != nil {
		return nil, err
	}
	l := &Lab{Number: number, config: config, paths: place.PathsOf(number), networkFaults: newNetworkFaults()}
	err = l.create(ctx, lock)
	_ = lock.Close() // the guard holds it
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make lab %d: %w", number, err), l.Close())
	}
	return l, nil
}

// lockNumber locks a lab's number: the requested one, or the first that is free.
func lockNumber(requested int) (*os.File, int, error) {
	if err := os.MkdirAll(place.PathsOf(1).Root, 0o700); err != nil {
		return nil, 0, err
	}
	first, last := 1, place.Last
	if requested != 0 {
		first, last = requested, requested
	}
	for number := first; number <= last; number++ {
		lock, err := os.OpenFile(place.PathsOf(number).Lock(), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, 0, err
		}
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return lock, number, nil
		}
		_ = lock.Close() // another lab holds it
	}
	return nil, 0, fmt.Errorf("take a number for a lab: %d to %d are in use", first, last)
}

func (l *Lab) create(ctx context.Context, lock *os.File) error {
	if err := l.paths.Sweep(); err != nil {
		return fmt.Errorf("remove what an earlier lab left: %w", err)
	}
	if err := os.MkdirAll(l.bin(), 0o700); err != nil {
		return err
	}
	if err := l.buildAgent(ctx); err != nil {
		return err
	}
	if err := l.startGuard(lock); err != nil {
		return err
	}
	if err := l.install(ctx); err != nil {
		return err
	}
	for i := 1; i <= l.config.Guests; i++ {
		g := newGuest(l, i)
		if err := g.prepare(ctx); err != nil {
			return fmt.Errorf("prepare guest %d: %w", i, err)
		}
		l.guests = append(l.guests, g)
	}
	return l.networkUp(ctx)
}

// bin is seen by the guests at /run/lab.
func (l *Lab) bin() string   { return filepath.Join(l.paths.Dir(), "bin") }
func (l *Lab) agent() string { return filepath.Join(l.bin(), "agent") }

// Dir is the lab's directory on the host; guest i has n<i> in it.
func (l *Lab) Dir() string { return l.paths.Dir() }

// startGuard starts the process that removes the lab when this process ends for any reason. The guard must not
// inherit this process's output: `go test` would wait for it.
func (l *Lab) startGuard(lock *os.File) error {
	log, err := os.OpenFile(l.paths.GuardLog(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the guard has its own
	guard := exec.Command(l.agent(), "guard", fmt.Sprint(l.Number))
	guard.Stdout, guard.Stderr, guard.Dir = log, log, "/"
	guard.ExtraFiles = []*os.File{lock}
	guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := guard.StdinPipe()
	if err != nil {
		return err
	}
	if err := guard.Start(); err != nil {
		return fmt.Errorf("start the guard: %w", err)
	}
	l.guard, l.guardPipe = guard, stdin
	return nil
}

// Guest is a guest, from 1.
func (l *Lab) Guest(i int) *Guest { return l.guests[i-1] }

// Guests are all, in order.
func (l *Lab) Guests() []*Guest { return l.guests }

// Boot boots all guests at once and returns when each answers.
func (l *Lab) Boot(ctx context.Context) error {
	return l.forEachGuest(func(g *Guest) error { return g.Boot(ctx) })
}

// forEachGuest does something with all guests at once.
func (l *Lab) forEachGuest(do func(*Guest) error) error {
	failed := make([]error, len(l.guests))
	var all sync.WaitGroup
	for i, g := range l.guests {
		all.Go(func() { failed[i] = do(g) })
	}
	all.Wait()
	return errors.Join(failed...)
}

// Close ends the lab like a power loss of all guests, and removes it: processes, networks, directory. A
// repeated call returns the same.
func (l *Lab) Close() error {
	l.once.Do(func() { l.closed = l.close() })
	return l.closed
}

func (l *Lab) close() error {
	for _, g := range l.guests {
		g.closeConns()
	}
	l.mu.Lock()
	if l.cluster != nil {
		l.cluster.Close()
	}
	l.mu.Unlock()
	if l.guard == nil {
		return l.paths.Sweep()
	}
	_ = l.guardPipe.Close() // this is what the guard waits for
	ended := make(chan error, 1)
	go func() { ended <- l.guard.Wait() }()
	select {
	case err := <-ended:
		if err == nil {
			return nil
		}
		said, _ := os.ReadFile(l.paths.GuardLog()) // without it err is enough
		return fmt.Errorf("remove lab %d: %w: %s", l.Number, err, said)
	case <-time.After(3 * time.Minute):
		return fmt.Errorf("remove lab %d: its guard has not ended within three minutes", l.Number)
	}
}
