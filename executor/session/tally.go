package session

import (
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// tally decides which hosts are unreachable (S25). It is pure: time is passed in.
//
// It counts, per host, for how long the leader has looked and no member had the
// host's session. Only time between two exchanges of one leadership counts, and
// at most two intervals of it: while this process was stopped it looked at nothing.
type tally struct {
	timeout  time.Duration // --node-timeout
	interval time.Duration

	term    uint64
	started bool      // a majority of the voters answered once in this term
	last    time.Time // of the exchange before
	missing map[fsm.NodeID]absence
}

type absence struct {
	lasted     time.Duration
	registered fsm.Epoch
}

// exchange is what one round of questions to all members brought.
type exchange struct {
	at       time.Time
	term     uint64
	voters   int // in the configuration
	answered int // of them, the leader included
	// sessions says which host ids have a session under a name. A member that did
	// not answer counts as having none.
	sessions map[fsm.NodeID][]fsm.HostID
}

// edge is a change to be recorded in the log.
type edge struct {
	node      fsm.NodeID
	host      fsm.HostID
	reachable bool
}

// decide takes in an exchange and says what is to be proposed for these nodes.
func (t *tally) decide(x exchange, nodes []fsm.Node) []edge {
	passed := t.passed(x)
	missing := make(map[fsm.NodeID]absence, len(t.missing))
	var edges []edge
	for _, n := range nodes {
		switch seen := slices.Contains(x.sessions[n.ID], n.Host); {
		case n.State == fsm.NodeLost:
		case seen && n.State == fsm.NodeUnreachable:
			edges = append(edges, edge{n.ID, n.Host, true})
		case !seen && n.State == fsm.NodeReachable:
			a := t.absent(&n, passed)
			missing[n.ID] = a
			if a.lasted >= t.timeout {
				edges = append(edges, edge{n.ID, n.Host, false})
			}
		}
	}
	t.missing = missing
	return edges
}

// passed is the time since the exchange before that counts.
func (t *tally) passed(x exchange) time.Duration {
	if x.term != t.term {
		*t = tally{timeout: t.timeout, interval: t.interval, term: x.term}
	}
	passed := min(x.at.Sub(t.last), 2*t.interval)
	if !t.started {
		passed = 0 // what was not asked of a majority was not seen
		t.started = 2*x.answered > x.voters
	}
	t.last = x.at
	return max(passed, 0)
}

// absent adds to a host's absence. A host that registered since was seen, though
// its session may have come and gone between two exchanges.
func (t *tally) absent(n *fsm.Node, passed time.Duration) absence {
	a := t.missing[n.ID]
	if a.registered != n.Registered {
		return absence{registered: n.Registered}
	}
	a.lasted += passed
	return a
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
