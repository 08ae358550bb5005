package sim

import (
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// scene is a short script with which a seed begins whose crash is aimed at a boundary that random
// work seldom reaches. Nothing goes wrong in it but what the script says, and the crash.
type scene struct {
	name    string
	claims  []string       // that it needs
	prepare func(*options) // nil: any will do
	play    func(*script)
	leadsTo []string // the boundaries, with both of their sides
	// random: random work leads there too, and has every second seed.
	random bool
}

// sceneThatLeadsTo is the scene of the first aim, nil where random work leads there. Where there are several, each
// round of seeds has another one.
func sceneThatLeadsTo(aims []string, round int) *scene {
	var leading []*scene
	random := false
	for _, scene := range slices.Concat(scenes, keyScenes) {
		if len(aims) > 0 && slices.Contains(scene.leadsTo, aims[0]) {
			leading, random = append(leading, &scene), random || scene.random
		}
	}
	if random {
		leading = append(leading, nil)
	}
	if len(leading) == 0 {
		return nil
	}
	return leading[round%len(leading)]
}

// aroundEach are the boundaries before and after effects or steps.
func aroundEach(names ...string) (all []string) {
	for _, name := range names {
		all = append(all, name+".before", name+".after")
	}
	return all
}

// Limits of a scene. One that comes to none of its ends is left.
const (
	sceneSteps = 2500
	waitSteps  = 500
	waitTime   = 90 * time.Second // simulated
	sceneTries = 8
)

// script is a scene that is played.
type script struct {
	s     *Sim
	steps int
	down  map[*host]bool    // hosts that are not started again now
	holds func(*event) bool // what does not happen now; nil: nothing is held
}

// playScene plays the seed's scene, where it has one. It returns how many steps with faults follow.
func (s *Sim) playScene() (steps int) {
	if s.scene == nil {
		return s.options.steps
	}
	s.note("the scene %s begins", s.scene.name)
	s.counts["scene "+s.scene.name]++
	x := &script{s: s, down: map[*host]bool{}}
	s.scene.play(x)
	x.mend()
	s.note("the scene %s ends", s.scene.name)
	return s.options.steps / 2
}

// mend ends what the script did to hosts, pools and links.
func (x *script) mend() {
	x.down, x.holds, x.s.handlersDie = map[*host]bool{}, nil, false
	x.s.faults.mendLinks()
	x.s.faults.mendPools()
}

// until lets everything happen until a condition holds.
func (x *script) until(holds func() bool) bool {
	began := time.Now()
	for range waitSteps {
		x.s.settle()
		if holds() {
			return true
		}
		if x.steps++; x.s.failed() || x.steps > sceneSteps || time.Since(began) > waitTime {
			return false
		}
		x.s.trace.steps++
		x.step()
	}
	return false
}

// pass lets everything happen for a time.
func (x *script) pass(d time.Duration) {
	end := time.Now().Add(d)
	x.until(func() bool { return !time.Now().Before(end) })
}

// step lets one thing happen. Writers write only when the script says so.
func (x *script) step() {
	s := x.s
	if s.crashWhereAimed() {
		return
	}
	for _, h := range s.hosts {
		if !x.down[h] {
			s.faults.start(h)
		}
	}
	ready := slices.DeleteFunc(s.readyEvents(), func(e *event) bool { return e.isWriter() || x.holds != nil && x.holds(e) })
	switch {
	case len(ready) == 0:
		s.sleep(time.Second)
		return
	case x.steps%stepsWithoutTime == 0:
		s.sleep(timeBetween)
		return
	}
	s.release(ready[s.tape.pick(len(ready))], false)
}

// call makes a call until it succeeds.
func (x *script) call(next func() *csiCall) bool {
	for range sceneTries {
		if x.try(next()) {
			return true
		}
	}
	return false
}

// try makes a call and waits for its end.
func (x *script) try(call *csiCall) bool {
	if call.host != nil && !x.until(func() bool { return call.host.process != nil }) {
		return false
	}
	ended, succeeded := false, false
	done := call.done
	call.timeout = 20 * time.Second
	call.done = func(err error) {
		ended, succeeded = true, err == nil
		if done != nil {
			done(err)
		}
	}
	x.s.clients.begin(call)
	return x.until(func() bool { return ended }) && succeeded
}

// claim is one of those that the scene needs.
func (x *script) claim(name string) *claim {
	for _, c := range x.s.clients.claims {
		if c.name == name {
			return c
		}
	}
	return nil
}

// make makes a claim's volume, and what it is made from.
func (x *script) make(c *claim) bool {
	if c.id != "" {
		return true
	}
	if c.source != nil && !(x.make(c.source) && (!c.fromSnap || c.source.snapshot != "" || x.call(c.source.takeSnapshot))) {
		return false
	}
	return x.call(c.create) && c.id != ""
}

// hosts are those of a claim's replicas, in their order.
func (x *script) hosts(c *claim) (all []*host) {
	v, ok := x.volume(c)
	for _, h := range x.s.hosts {
		if n := x.s.nodeOf(h); ok && n != nil && v.Replica(n.Host) != nil && v.Replica(n.Host).State != fsm.ReplicaLeaving {
			all = append(all, h)
		}
	}
	return all
}

func (x *script) volume(c *claim) (*fsm.Volume, bool) { return c.volume() }

// up brings a claim up on a host.
func (x *script) up(u *use) bool {
	for range sceneTries {
		u.noticeReboot()
		switch {
		case u.context == nil:
			x.try(u.publish())
		case !u.staged:
			x.try(u.stage())
		case !u.bound:
			x.try(u.bind())
		default:
			return true
		}
	}
	return u.bound
}

// takeDown is the opposite of up.
func (x *script) takeDown(u *use) bool {
	return x.call(u.unbind) && x.call(u.unstage) && x.call(u.unpublish)
}

// write writes some, and has it acknowledged where the kernel lets it.
func (x *script) write(u *use) {
	u.noticeReboot()
	if u.bound {
		u.openWriter()
	}
	u.write()
	u.sync()
}

// inSync tells whether all replicas of a claim are up to date and seen so.
func (x *script) inSync(c *claim) bool {
	v, ok := x.volume(c)
	if !ok {
		return false
	}
	active := v.ActiveReplicas()
	for _, r := range active {
		if !r.UpToDate || r.Outdated || !r.Observed.Connected() {
			return false
		}
	}
	return len(active) == len(v.Replicas)
}

// settled waits until all replicas of a claim are up to date.
func (x *script) settled(c *claim) bool { return x.until(func() bool { return x.inSync(c) }) }

// pair brings a replicated claim up on its first host; the other one has its peer.
func (x *script) pair(name string) (here, there *use, ok bool) {
	c := x.claim(name)
	if !x.make(c) {
		return nil, nil, false
	}
	hosts := x.hosts(c)
	if len(hosts) < 2 {
		return nil, nil, false
	}
	if x.s.tape.pick(2) == 1 {
		hosts[0], hosts[1] = hosts[1], hosts[0]
	}
	here, there = c.useOn(hosts[0]), c.useOn(hosts[1])
	if !x.up(here) {
		return nil, nil, false
	}
	x.write(here)
	return here, there, x.settled(c)
}
