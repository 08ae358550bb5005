package session

import (
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// tally decides which hosts are unreachable (S25). It is pure: time is passed in.
//
// It counts, per host, for how long this member has looked and no member had the
// host's session. Only time between two exchanges counts, and at most two intervals
// of it: while this process was stopped it looked at nothing. A member that does not
// lead counts too, while a majority answers it, so that a new leader goes on from there.
type tally struct {
	timeout  time.Duration // --node-timeout
	interval time.Duration

	term    uint64    // that this member leads in; 0: it does not
	started bool      // a majority of the voters answered once, and since then whenever it did not lead
	last    time.Time // of the exchange before
	missing map[fsm.NodeID]absence
	// silent are the hosts that had a session in the exchange before and said nothing in
	// it for longer than a beat. When the session is found to be dead that counts too.
	silent map[fsm.NodeID]absence
}

type absence struct {
	lasted     time.Duration
	registered fsm.Epoch
}

// host is a node by its name and the id of its host, of which several may claim the name.
type host struct {
	node fsm.NodeID
	id   fsm.HostID
}

// exchange is what one round of questions to all members brought.
type exchange struct {
	at       time.Time
	term     uint64
	leading  bool
	voters   int // in the configuration
	answered int // of them, this member included
	// sessions says for how long nothing came from those that have one. A member that
	// did not answer counts as having none.
	sessions map[host]time.Duration
}

// hears takes in a session. Of two sessions the one that was heard later counts.
func (x *exchange) hears(h host, quiet time.Duration) {
	if before, twice := x.sessions[h]; !twice || quiet < before {
		x.sessions[h] = quiet
	}
}

func (x *exchange) majority() bool { return 2*x.answered > x.voters }

// edge is a change to be recorded in the log.
type edge struct {
	node      fsm.NodeID
	host      fsm.HostID
	reachable bool
}

// decide takes in an exchange and says what is to be proposed for these nodes.
func (t *tally) decide(x exchange, nodes []fsm.Node) []edge {
	passed := t.passed(x)
	missing, silent := make(map[fsm.NodeID]absence, len(t.missing)), make(map[fsm.NodeID]absence, len(t.silent))
	var edges []edge
	for _, n := range nodes {
		switch quiet, seen := x.sessions[host{n.ID, n.Host}]; {
		case n.State == fsm.NodeLost:
		case seen && n.State == fsm.NodeUnreachable:
			edges = append(edges, edge{n.ID, n.Host, true})
		case seen && quiet > usual.missed():
			silent[n.ID] = absence{min(quiet, usual.silence), n.Registered}
		case !seen && n.State == fsm.NodeReachable:
			a := t.absent(&n, passed)
			missing[n.ID] = a
			if a.lasted >= t.timeout {
				edges = append(edges, edge{n.ID, n.Host, false})
			}
		}
	}
	t.missing, t.silent = missing, silent
	return edges
}

// passed is the time since the exchange before that counts.
func (t *tally) passed(x exchange) time.Duration {
	if !t.goesOn(x) {
		*t = tally{timeout: t.timeout, interval: t.interval}
	}
	t.term = 0
	if x.leading {
		t.term = x.term
	}
	passed := min(x.at.Sub(t.last), 2*t.interval)
	if !t.started {
		passed = 0 // what was not asked of a majority was not seen
		t.started = x.majority()
	}
	t.last = x.at
	return max(passed, 0)
}

// goesOn tells whether what was counted still counts. A leader has a majority that
// follows it, whoever answers; without leading it takes one that answers.
func (t *tally) goesOn(x exchange) bool {
	return x.majority() || x.leading && x.term == t.term
}

// absent adds to a host's absence. A host that registered since was seen, though
// its session may have come and gone between two exchanges.
func (t *tally) absent(n *fsm.Node, passed time.Duration) absence {
	a, counted := t.missing[n.ID]
	switch {
	case counted && a.registered == n.Registered:
		a.lasted += passed
		return a
	case counted || t.silent[n.ID].registered != n.Registered:
		return absence{registered: n.Registered}
	}
	return t.silent[n.ID]
}

// skew is how far the own clock is ahead of the members' median (S27). offsets
// are the other members' clocks, less the own. Of an even number the middle value
// that is nearer to the own clock is taken: two clocks alone prove nothing.
func skew(offsets []time.Duration) time.Duration {
	all := append([]time.Duration{0}, offsets...)
	slices.Sort(all)
	upper := all[len(all)/2]
	lower := all[(len(all)-1)/2]
	if upper.Abs() < lower.Abs() {
		return -upper
	}
	return -lower
}
