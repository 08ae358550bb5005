package sim

import (
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// takeOver: a primary is cut off, its peer goes on in its place, and it returns.
func takeOver(x *script) {
	here, there, ok := x.pair("pair")
	if !ok {
		return
	}
	if !x.isolate(here) || !x.call(here.unpublish) || !x.up(there) {
		return
	}
	x.write(there)
	x.mend()
	x.settled(here.claim)
}

// isolate cuts a use's host off from the controllers, and in some seeds from its peer too; in some
// its process ends. The controllers notice.
func (x *script) isolate(u *use) bool {
	u.write()
	x.cutOff(u.host, x.s.tape.pick(3) > 0)
	if x.s.tape.pick(4) == 3 {
		u.host.crash()
		x.down[u.host] = true
	}
	return x.noticed(u.host)
}

// noticed waits until the log knows that a host is unreachable.
func (x *script) noticed(h *host) bool {
	return x.until(func() bool { return !x.s.log.state.HostReachable(x.s.nodeOf(h).ID, x.s.nodeOf(h).Host) })
}

// cutOff cuts a host off from the controllers, whose streams end, and from the other hosts too.
func (x *script) cutOff(h *host, hosts bool) {
	x.s.faults.cutFromMembers(h)
	for _, st := range x.s.net.openStreams() {
		if st.conn.from == h.name {
			st.breakOff(false)
		}
	}
	for _, other := range x.s.hosts {
		if hosts {
			x.s.faults.cut(h.name, other.name)
		}
	}
}

// busyLoser: the same, while the one that was cut off is just being taken down and waits for its I/O.
func busyLoser(x *script) {
	here, there, ok := x.pair("pair")
	if !ok {
		return
	}
	here.write()
	x.cutOff(here.host, true)
	here.sync()
	if !x.noticed(here.host) || !x.call(here.unpublish) || !x.up(there) {
		return
	}
	x.s.clients.begin(here.unbind())
	x.pass(time.Second)
	x.s.clients.begin(here.unstage())
	x.pass(time.Second)
	x.mend()
	x.settled(here.claim)
}

// handlerDies: a primary loses its peer, and the kernel's handler dies before it asks.
func handlerDies(x *script) {
	here, there, ok := x.pair("pair")
	if !ok {
		return
	}
	x.s.handlersDie = true
	x.s.faults.cut(here.host.name, there.host.name)
	here.write()
	x.pass(8 * time.Second)
	here.sync()
	x.mend()
	x.settled(here.claim)
}

// diskFails: the disk of one of the replicas fails, and is mended.
func diskFails(x *script) {
	here, there, ok := x.pair("pair")
	if !ok {
		return
	}
	victim := there
	if x.s.tape.pick(3) == 2 {
		victim = here
	}
	for _, config := range x.s.options.pools(victim.host.number) {
		victim.host.world.Pool(config.ID).SetWriteErrors(true)
	}
	x.write(here)
	x.until(func() bool { return !x.inSync(here.claim) })
	x.s.faults.mendPools()
	x.settled(here.claim)
}

// made makes a claim's volume, of one that holds something where it is made from another.
func (x *script) made(name string) *use {
	c := x.claim(name)
	if c.source != nil && x.make(c.source) {
		if hosts := x.hosts(c.source); len(hosts) > 0 && x.up(c.source.useOn(hosts[0])) {
			x.write(c.source.useOn(hosts[0]))
		}
	}
	if x.make(c) {
		if hosts := x.hosts(c); len(hosts) > 0 {
			return c.useOn(hosts[0])
		}
	}
	return c.useOn(x.s.hosts[0])
}

// life makes a volume, uses it, and deletes it.
func life(x *script) {
	here, _, ok := x.pair("pair")
	if ok && x.takeDown(here) {
		x.call(here.claim.delete)
	}
}

// grow grows a volume in use, which is then staged again. To be as large as before, or larger than its pools, it is asked
// for in vain.
func grow(x *script) {
	here, _, ok := x.pair("pair")
	if !ok || !x.call(here.claim.expand) {
		return
	}
	x.try(here.claim.expandTo(here.claim.size - 16<<20))
	x.try(here.claim.expandTo(10 << 40))
	x.try(here.expandNode())
	if x.takeDown(here) {
		x.up(here)
	}
}

// reclaimSpace reclaims the space of a volume in use, and then of the same when nobody uses it.
func reclaimSpace(x *script) {
	here, _, ok := x.pair("pair")
	if !ok {
		return
	}
	x.write(here)
	x.call(here.reclaimSpace)
	if x.takeDown(here) {
		x.call(here.claim.reclaimSpace)
		x.up(here)
	}
}

// limits changes the limits of a volume in use.
func limits(x *script) {
	u := x.made("local")
	if x.up(u) {
		x.call(func() *csiCall { return u.claim.modify(500) })
	}
}

// snapshot takes one of a volume in use, and deletes it.
func snapshot(x *script) {
	u := x.made("local")
	if !x.up(u) {
		return
	}
	x.write(u)
	if x.call(u.claim.takeSnapshot) {
		x.thawed(u)
		x.call(u.claim.deleteSnapshot)
	}
}

// newPeer gives a volume another second replica.
func newPeer(x *script) {
	here, there, ok := x.pair("pair")
	if !ok {
		return
	}
	v, _ := x.volume(here.claim)
	n := x.s.nodeOf(there.host)
	x.call(func() *csiCall {
		return operate("remove-replica "+v.Name, &fsmpb.Command{Body: &fsmpb.Command_RemoveReplica{RemoveReplica: &fsmpb.RemoveReplica{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), Reason: "a scene"}}})
	})
	x.call(func() *csiCall {
		return operate("add-replica "+v.Name, &fsmpb.Command{Body: &fsmpb.Command_AddReplica{AddReplica: &fsmpb.AddReplica{VolumeId: string(v.ID), Reason: "a scene"}}})
	})
	x.settled(here.claim)
}

// interruptedCopy: the target of a copy loses its power in the middle of it.
func interruptedCopy(x *script) {
	here, there, ok := x.pair("pair")
	if !ok {
		return
	}
	x.s.faults.cut(here.host.name, there.host.name)
	for range 3 {
		x.write(here)
		x.pass(3 * time.Second)
	}
	x.s.faults.mendLinks()
	if x.until(func() bool { return x.s.resyncs() > 0 }) {
		x.s.counts["resync interrupted"]++
		there.host.powerLoss()
	}
	x.settled(here.claim)
}

// verify: the replicas are compared.
func verify(x *script) {
	here, _, ok := x.pair("pair")
	if !ok {
		return
	}
	x.pass(3 * time.Second)
	x.write(here)
	x.call(here.expandNode)
	x.pass(3 * time.Second)
}

// isWriter tells whether it is a write or a sync of a volume's user.
func (e *event) isWriter() bool { return strings.HasPrefix(e.key, "writer") }
