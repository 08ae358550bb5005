package sim

import (
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// copyInUse: a volume is written to while it is copied, because the copy takes longer than a filesystem stays frozen.
func copyInUse(x *script) {
	c := x.claim("local-clone")
	x.use(c.source, func(u *use) { x.copySlowly(u, c.create) })
}

// snapshotInUse is the same of a copy that is a snapshot.
func snapshotInUse(x *script) {
	x.use(x.claim("local"), func(u *use) { x.copySlowly(u, u.claim.takeSnapshot) })
}

// copySlowly has a copy wait in its middle until the freeze of its source ended, and its source written to there.
func (x *script) copySlowly(u *use, copying func() *csiCall) {
	for range 3 {
		x.write(u)
	}
	const at = "pool.copy.before"
	reads := x.s.hits[at] + 5 + x.s.tape.pick(2)
	x.holds = func(e *event) bool { return e.isAt(at) && x.s.hits[at] >= reads }
	x.s.clients.begin(copying())
	if x.until(func() bool { return x.s.hits[at] >= reads }) {
		x.pass(11 * time.Second) // longer than any freeze
		for range 4 {
			x.write(u)
		}
	}
	x.holds = nil
	x.call(copying)
}

// groupInUse: the volumes of a group are written to between the snapshots of the one and of the other.
func groupInUse(x *script) {
	x.use(x.claim("local"), func(u *use) {
		x.use(x.claim("pair"), func(other *use) {
			x.s.clients.begin(u.claim.takeGroup(other.claim))
			x.betweenSnapshots(func() {
				for range 2 {
					x.write(u)
					x.write(other)
				}
			})
			x.call(func() *csiCall { return u.claim.takeGroup(other.claim) })
		})
	})
}

// betweenSnapshots does something when one of two snapshots has been taken, and the other waits.
func (x *script) betweenSnapshots(do func()) {
	const at = "pool.take-snapshot.before"
	waiting := func() (all []*event) {
		return slices.DeleteFunc(x.s.pending.ready(), func(e *event) bool { return !e.isAt(at) })
	}
	x.holds = func(e *event) bool { return e.isAt(at) }
	if x.until(func() bool { return len(waiting()) == 2 }) {
		x.s.release(waiting()[x.s.tape.pick(2)], false)
		x.s.settle()
		do()
	}
	x.holds = nil
}

// thawed: once its snapshot has been taken, a filesystem takes writes again, and not only at the deadline of its freeze.
func (x *script) thawed(u *use) {
	frozen := func() bool { return slices.Contains(u.host.world.Audit().Frozen, fsm.VolumeID(u.claim.id)) }
	end := time.Now().Add(3 * time.Second)
	if x.until(func() bool { return !frozen() || time.Now().After(end) }) && frozen() {
		x.s.fail("instant: the filesystem of %s stays frozen, although its snapshot is there", u.claim.name)
	}
}

// aloneAgain: the process of a host that is cut off from the controllers ends, and the next one takes down what is up.
func aloneAgain(x *script) {
	x.use(x.claim("local"), func(u *use) {
		x.cutOff(u.host, false)
		u.host.crash()
		if x.call(u.unbind) && x.call(u.unstage) {
			x.pass(time.Second)
		}
		x.mend()
		x.call(u.unpublish)
	})
}

// use makes a claim's volume, brings it up and has it written to, and then does something with it.
func (x *script) use(c *claim, do func(*use)) {
	if !x.make(c) {
		return
	}
	if hosts := x.hosts(c); len(hosts) > 0 {
		if u := c.useOn(hosts[0]); x.up(u) {
			x.write(u)
			do(u)
		}
	}
}

// isAt tells whether it is a host's process that waits at a boundary.
func (e *event) isAt(boundary string) bool { return e.gate != nil && e.gate.name == boundary }
