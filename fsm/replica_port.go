package fsm

import (
	"math/bits"
	"slices"
)

// lastPort is the last of the ports that replicas use, from firstPort on. Tests have fewer.
var lastPort uint32 = 65_535

// lastMinor is the highest that DRBD has.
const lastMinor = 1<<20 - 1

// portBitmap are 64 ports of one host: a bit is set for each that a replica there uses.
type portBitmap struct {
	host HostID
	word uint32
	bits uint64
}

func (p portBitmap) before(o portBitmap) bool {
	if p.host != o.host {
		return p.host < o.host
	}
	return p.word < o.word
}

// hostPort is a port of a host.
type hostPort struct {
	host HostID
	port uint32
}

func (p hostPort) place() (at portBitmap, bit uint64) {
	n := p.port - firstPort
	return portBitmap{host: p.host, word: n / 64}, 1 << (n % 64)
}

// eachPort visits the volume's port on each host that has a replica of it, until the record of
// that replica is dropped.
func (r *storedVolume) eachPort(visit func(hostPort)) {
	replication := r.onHosts()
	if replication == nil {
		return
	}
	for i := range r.Replicas {
		visit(hostPort{r.Replicas[i].Host, replication.Port})
	}
}

// replacePorts updates which ports each host has in use.
func (x *index) replacePorts(c *volumeChange) {
	if c.before.samePorts(c.after) {
		return
	}
	c.before.eachPort(func(p hostPort) {
		at, bit := p.place()
		have, _ := x.ports.Get(at)
		if have.bits &^= bit; have.bits == 0 {
			x.ports.Delete(at)
		} else {
			x.ports.Set(have)
		}
	})
	c.after.eachPort(func(p hostPort) {
		at, bit := p.place()
		have, _ := x.ports.Get(at)
		at.bits = have.bits | bit
		x.ports.Set(at)
	})
}

func (r *storedVolume) samePorts(o *storedVolume) bool {
	before, after := r.onHosts(), o.onHosts()
	if before == nil || after == nil {
		return before == nil && after == nil
	}
	return before.Port == after.Port &&
		slices.EqualFunc(r.Replicas, o.Replicas, func(a, b Replica) bool { return a.Host == b.Host })
}

// hasPort tells whether a replica on the host has the port.
func (x *index) hasPort(p hostPort) bool {
	at, bit := p.place()
	have, _ := x.ports.Get(at)
	return have.bits&bit != 0
}

// freePort is the first port from a start on, and from the first one on after the last,
// that no replica on any of the hosts uses; 0 when there is none. It checks 64 ports at
// once, so it reads at most about a thousand words of each host.
func (x *index) freePort(start uint32, hosts ...HostID) uint32 {
	count := lastPort - firstPort + 1
	words, from := (count+63)/64, (start-firstPort)%count
	for i := range words + 1 {
		word := (from/64 + i) % words
		var taken uint64
		switch i {
		case 0:
			taken = 1<<(from%64) - 1 // those before the start come last
		case words:
			taken = ^uint64(1<<(from%64) - 1)
		}
		for _, host := range hosts {
			have, _ := x.ports.Get(portBitmap{host: host, word: word})
			taken |= have.bits
		}
		if n := word*64 + uint32(bits.TrailingZeros64(^taken)); taken != ^uint64(0) && n < count {
			return firstPort + n
		}
	}
	return 0
}

// preferredPort is the port that a minor's volume has where that is free: so volumes share
// ports only when there are more of them than ports.
func preferredPort(minor uint32) uint32 {
	return firstPort + (minor-firstMinor)%(lastPort-firstPort+1)
}

// freeMinor is the lowest minor that no volume has, not even one that is being
// removed, with a port that is free on both hosts. At feature level 1 no two volumes had
// the same port.
func (s *State) freeMinor(first, second *Replica) (minor, port uint32, rej *Rejection) {
	minor = s.index.lowestMinor()
	switch n := minor - firstMinor; {
	case !s.level2() && firstPort+n > lastPort:
		return 0, 0, Reject(NoCapacity, "there are %d replicated volumes: no port is left for another", n)
	case !s.level2():
		return minor, firstPort + n, nil
	case minor > lastMinor:
		return 0, 0, Reject(NoCapacity, "there are %d replicated volumes, with the minors %d to %d: none is left for another; delete volumes, or use a second cluster", n, firstMinor, lastMinor)
	}
	if port = s.index.freePort(preferredPort(minor), first.Host, second.Host); port == 0 {
		return 0, 0, rejectNoPort(first, second)
	}
	return minor, port, nil
}

func rejectNoPort(first, second *Replica) *Rejection {
	return Reject(NoCapacity, "no port of %d to %d is free on both host %s of node %s and host %s of node %s, where each replicated volume has one: delete volumes there, or cordon one of them so that another host is chosen",
		firstPort, lastPort, first.Host, first.Node, second.Host, second.Node)
}

// portForAdded is the port of a volume that gets a replica on another host: its own where
// that is free there, else one that is free on all of its hosts. The host that stays
// reconnects with it, as it does for each new peer.
func (s *State) portForAdded(v *Volume, added *Replica) (uint32, *Rejection) {
	port := v.Replication.Port
	if !s.level2() || !s.index.hasPort(hostPort{added.Host, port}) {
		return port, nil
	}
	hosts := []HostID{added.Host}
	for i := range v.Replicas {
		hosts = append(hosts, v.Replicas[i].Host)
	}
	if port = s.index.freePort(preferredPort(v.Replication.Minor), hosts...); port == 0 {
		return 0, rejectNoPort(&v.Replicas[0], added)
	}
	return port, nil
}

// fixedPort is the volume's port while that cannot change, as a host that still has to remove
// a replica uses it; 0: the volume can get another.
func (s *State) fixedPort(v *Volume) uint32 {
	leaving := func(r Replica) bool { return r.State == ReplicaLeaving }
	if s.level2() && slices.ContainsFunc(v.Replicas, leaving) {
		return v.Replication.Port
	}
	return 0
}
