package scenarios

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// anyGuest is one of the guests.
func (r *randomRun) anyGuest() *lab.Guest { return r.lab.Guests()[r.rng.IntN(len(r.lab.Guests()))] }

// restart starts a process again, unless its guest lost its power since: then all is started with it.
func (r *randomRun) restart(i int, start func(context.Context, int) error, job func(int) *lab.Job) {
	if r.lab.Guest(i).Running() && !job(i).Running(r.t.Context()) {
		r.must(start(r.t.Context(), i))
	}
}

func (r *randomRun) killNode() (string, func()) {
	i := r.anyGuest().Index
	r.must(r.cluster.KillNode(r.t.Context(), i))
	return fmt.Sprintf("n%d", i), func() { r.restart(i, r.cluster.StartNode, r.cluster.Node) }
}

func (r *randomRun) killLeader() (string, func()) {
	i := r.leader()
	r.must(r.cluster.KillController(r.t.Context(), i))
	return fmt.Sprintf("n%d", i), func() { r.restart(i, r.cluster.StartController, r.cluster.Controller) }
}

// killAll kills every process of Holdfast; all are started again before anything else happens.
func (r *randomRun) killAll() (string, func()) {
	for _, g := range r.lab.Guests() {
		r.must(r.cluster.KillController(r.t.Context(), g.Index))
		r.must(r.cluster.KillNode(r.t.Context(), g.Index))
	}
	r.dwell()
	for _, g := range r.lab.Guests() {
		r.must(r.cluster.StartGuest(r.t.Context(), g.Index))
	}
	return "all", nil
}

func (r *randomRun) pauseNode() (string, func()) { return r.pause("node", r.cluster.Node) }

func (r *randomRun) pauseController() (string, func()) {
	return r.pause("controller", r.cluster.Controller)
}

// pause stops a process of a guest, and lets it go on unless its guest lost its power since.
func (r *randomRun) pause(what string, job func(int) *lab.Job) (string, func()) {
	g := r.anyGuest()
	j := job(g.Index)
	r.must(j.Signal(r.t.Context(), syscall.SIGSTOP))
	eventually(r.t, timeout, what+" stands still", func(ctx context.Context) error {
		stat, err := g.Get(ctx, fmt.Sprintf("/proc/%d/stat", j.PID))
		if err == nil && !strings.Contains(string(stat), ") T ") {
			err = fmt.Errorf("it is %s", stat)
		}
		return err
	})
	return what + " of " + g.Name(), func() {
		if g.Running() && job(g.Index) == j {
			if err := j.Signal(r.t.Context(), syscall.SIGCONT); err != nil {
				r.t.Logf("%s let %s go on: %v", r.since(), what, err) // a guest that was started anew does not have it
			}
		}
	}
}

// pauseGuest stops a whole machine, DRBD in its kernel included.
func (r *randomRun) pauseGuest() (string, func()) {
	g := r.anyGuest()
	r.must(g.Pause())
	r.away[g.Name()] = true
	eventually(r.t, timeout, g.Name()+" stands still", func(context.Context) error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", g.KernelPID()))
		if err == nil && !strings.Contains(string(stat), ") T ") && !strings.Contains(string(stat), ") t ") {
			err = fmt.Errorf("it is %s", stat)
		}
		return err
	})
	return g.Name(), func() {
		delete(r.away, g.Name())
		r.must(g.Resume())
	}
}

func (r *randomRun) reboot() (string, func()) {
	g := r.anyGuest()
	r.must(g.Stop(r.t.Context()))
	return g.Name(), r.boot(g)
}

// boot is what ends the absence of guests; what is down is booted.
func (r *randomRun) boot(all ...*lab.Guest) func() {
	for _, g := range all {
		require.False(r.t, g.Running())
		r.away[g.Name()] = true
	}
	return func() {
		for _, g := range all {
			r.must(r.ensureRunning(r.t.Context(), g))
			delete(r.away, g.Name())
		}
	}
}

func (r *randomRun) losePower() (string, func()) {
	s := r.subjects[r.rng.IntN(len(r.subjects))]
	g := r.guest(s.v.hosts[r.rng.IntN(len(s.v.hosts))])
	r.must(g.Crash())
	return g.Name(), r.boot(g)
}

// losePowerOfBoth: they come back in either order.
func (r *randomRun) losePowerOfBoth() (string, func()) {
	_, user, peer := r.pair()
	one, other := r.lab.Guest(user), r.lab.Guest(peer)
	r.must(one.Crash())
	r.must(other.Crash())
	if r.rng.IntN(2) == 0 {
		one, other = other, one
	}
	return one.Name() + ", " + other.Name(), r.boot(one, other)
}

func (r *randomRun) losePowerOfLeader() (string, func()) {
	g := r.lab.Guest(r.leader())
	r.must(g.Crash())
	return g.Name(), r.boot(g)
}
