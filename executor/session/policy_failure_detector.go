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
type failureDetector struct {
	timeout  time.Duration // --node-timeout
	interval time.Duration

	term        uint64    // that this member leads in; 0: it does not
	sawMajority bool      // a majority of the voters answered once, and since then whenever it did not lead
	lastPoll    time.Time // of the exchange before
	outages     map[fsm.NodeID]outage
	// silences are the hosts that had a session in the exchange before and said nothing in
	// it for longer than a beat. When the session is found to be dead that counts too.
	silences map[fsm.NodeID]outage
}

type outage struct {
	duration   time.Duration
	registered fsm.Epoch
}

// host is a node by its name and the id of its host, of which several may claim the name.
type hostKey struct {
	node fsm.NodeID
	host fsm.HostID
}

// exchange is what one round of questions to all members brought.
type pollResult struct {
	at             time.Time
	term           uint64
	leading        bool
	voters         int // in the configuration
	answeredVoters int // of them, this member included
	// sessions says for how long nothing came from those that have one. A member that
	// did not answer counts as having none.
	sessions map[hostKey]time.Duration
}

// addSession takes in a session. Of two sessions the one that was heard later counts.
func (x *pollResult) addSession(k hostKey, silentFor time.Duration) {
	if known, found := x.sessions[k]; !found || silentFor < known {
		x.sessions[k] = silentFor
	}
}

func (x *pollResult) hasMajority() bool { return 2*x.answeredVoters > x.voters }

// reachabilityChange is a change to be recorded in the log.
type reachabilityChange struct {
	node      fsm.NodeID
	host      fsm.HostID
	reachable bool
}

// decide takes in an exchange and says what is to be proposed for these nodes.
func (d *failureDetector) decide(x pollResult, nodes []fsm.Node) []reachabilityChange {
	elapsed := d.advance(x)
	outages, silences := make(map[fsm.NodeID]outage, len(d.outages)), make(map[fsm.NodeID]outage, len(d.silences))
	var changes []reachabilityChange
	for _, n := range nodes {
		switch silentFor, hasSession := x.sessions[hostKey{n.ID, n.Host}]; {
		case n.State == fsm.NodeLost:
		case hasSession && n.State == fsm.NodeUnreachable:
			changes = append(changes, reachabilityChange{n.ID, n.Host, true})
		case hasSession && silentFor > defaultTiming.lateHeartbeat():
			silences[n.ID] = outage{min(silentFor, defaultTiming.peerTimeout), n.Registered}
		case !hasSession && n.State == fsm.NodeReachable:
			a := d.extendOutage(&n, elapsed)
			outages[n.ID] = a
			if a.duration >= d.timeout {
				changes = append(changes, reachabilityChange{n.ID, n.Host, false})
			}
		}
	}
	d.outages, d.silences = outages, silences
	return changes
}

// advance is the time since the exchange before that counts.
func (d *failureDetector) advance(x pollResult) time.Duration {
	if !d.stillCounts(x) {
		*d = failureDetector{timeout: d.timeout, interval: d.interval}
	}
	d.term = 0
	if x.leading {
		d.term = x.term
	}
	elapsed := min(x.at.Sub(d.lastPoll), 2*d.interval)
	if !d.sawMajority {
		elapsed = 0 // what was not asked of a majority was not seen
		d.sawMajority = x.hasMajority()
	}
	d.lastPoll = x.at
	return max(elapsed, 0)
}

// stillCounts tells whether what was counted still counts. A leader has a majority that
// follows it, whoever answers; without leading it takes one that answers.
func (d *failureDetector) stillCounts(x pollResult) bool {
	return x.hasMajority() || x.leading && x.term == d.term
}

// extendOutage adds to a host's absence. A host that registered since was seen, though
// its session may have come and gone between two exchanges.
func (d *failureDetector) extendOutage(n *fsm.Node, elapsed time.Duration) outage {
	a, known := d.outages[n.ID]
	switch {
	case known && a.registered == n.Registered:
		a.duration += elapsed
		return a
	case known || d.silences[n.ID].registered != n.Registered:
		return outage{registered: n.Registered}
	}
	return d.silences[n.ID]
}

// clockSkew is how far the own clock is ahead of the members' median (S27). offsets
// are the other members' clocks, less the own. Of an even number the middle value
// that is nearer to the own clock is taken: two clocks alone prove nothing.
func clockSkew(offsets []time.Duration) time.Duration {
	all := append([]time.Duration{0}, offsets...)
	slices.Sort(all)
	upper := all[len(all)/2]
	lower := all[(len(all)-1)/2]
	if upper.Abs() < lower.Abs() {
		return -upper
	}
	return -lower
}
