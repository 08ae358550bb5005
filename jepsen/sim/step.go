package sim

import (
	"strings"
	"testing/synctest"
	"time"
)

// tick passes between two steps: what different steps began does not end at the same time, when Go
// would choose among it by chance.
const tick = 17 * time.Microsecond

// settle waits until nothing runs, and then checks what must always hold.
func (s *Sim) settle() {
	synctest.Wait()
	time.Sleep(tick)
	synctest.Wait()
	s.trace.noteRealTime()
	s.settled++
	s.reseed(s.settled)
	s.checks.always()
}

// step lets one thing happen while faults do.
func (s *Sim) step() {
	s.settle()
	s.trace.steps++
	if s.crashWhereAimed() {
		return
	}
	if s.tape.oneIn(s.options.faultInterval) {
		s.faults.happen()
		return
	}
	ready := s.readyEvents()
	switch n := s.tape.pick(20); {
	case n < 15 && len(ready) > 0:
		s.release(ready[s.tape.pick(len(ready))], true)
	case n < 19 && s.clients.act():
	case n < 19 && len(ready) > 0:
		s.release(ready[s.tape.pick(len(ready))], true)
	default:
		s.sleep(sleeps[s.tape.pick(len(sleeps))])
	}
}

var sleeps = []time.Duration{10 * time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second, 3 * time.Second}

// sleep lets time pass, until something waits for the driver or the time is over.
func (s *Sim) sleep(d time.Duration) {
	select {
	case <-s.pending.wake:
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.pending.wake:
	case <-timer.C:
	}
}

// readyEvents are all events that may happen now, in a fixed order.
func (s *Sim) readyEvents() []*event {
	ready := s.pending.ready()
	for _, e := range s.world.Events() {
		ready = append(ready, &event{key: "kernel " + e.Name(), kind: kindKernel, do: e.Do})
	}
	for _, call := range s.world.Handlers() {
		ready = append(ready, s.handlerEvents(call)...)
	}
	for _, m := range s.members {
		if m.up() && m.applied < s.log.committedIndex() && s.log.leader != nil && s.net.up(m.name, s.log.leader.name) {
			ready = append(ready, &event{key: "apply " + m.name, kind: kindApply, do: func() { m.applyUpTo(min(s.log.committedIndex(), m.applied+8)) }})
		}
	}
	if l := s.log.leader; l != nil && len(l.state.Cluster().Sweeps) > 0 {
		ready = append(ready, &event{key: "sweep", kind: kindApply, do: s.log.continueSweep})
	}
	ready = append(ready, s.clients.writerEvents()...)
	s.trace.offered(ready, s.pending.all)
	return ready
}

// release lets an event happen, or go wrong.
func (s *Sim) release(e *event, faults bool) {
	s.pending.remove(e)
	if faults && s.faults.goWrong(e) {
		return
	}
	s.note("%s", e.key)
	s.countStale(e)
	e.do()
}

// crashWhereAimed crashes the host that reached a boundary which the seed aims at.
func (s *Sim) crashWhereAimed() bool {
	for _, e := range s.pending.ready() {
		if e.gate == nil || e.gate.aimed == nil {
			continue
		}
		s.note("%s is where the crash is aimed at", e.key)
		h := e.gate.process.host
		s.crashedAt[e.gate.name]++
		s.counts["aimed crash"]++
		if e.gate.aimed.power {
			h.powerLoss()
		} else {
			h.crash()
		}
		return true
	}
	return false
}

// countStale counts what a controller that is behind tells a host.
func (s *Sim) countStale(e *event) {
	if e.kind != kindMessage || !strings.HasSuffix(e.key, "Attach: Desired") {
		return
	}
	for _, m := range s.members {
		if m.applied < s.log.committedIndex() && strings.HasPrefix(e.key, "message "+m.name+"->") {
			s.counts["stale source"]++
		}
	}
}
