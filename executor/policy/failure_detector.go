package policy

import (
	"time"

	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/fsm"
)

// failureDetector decides which hosts are unreachable (S25). It is pure: time is passed in.
//
// It counts, per host, for how long no member had the host's session. A member
// that does not lead counts too, while a majority answers it, so that a new leader
// continues from there.
type failureDetector struct {
	timeout       time.Duration // --node-timeout
	lateHeartbeat time.Duration // a host that works sends a message earlier
	maxSilence    time.Duration // after which a controller drops a session
	clock         pollClock
	outages       map[fsm.NodeID]outage
	// silences are the hosts that had a session at the poll before and whose heartbeat
	// was late. When the session is found to be dead that time counts too.
	silences map[fsm.NodeID]outage
}

func newFailureDetector(timeout, interval time.Duration) failureDetector {
	return failureDetector{
		timeout: timeout, clock: pollClock{interval: interval},
		lateHeartbeat: session.HeartbeatLate, maxSilence: session.PeerTimeout,
	}
}

// outage is for how long a host had no session, and the registration from which that counts.
type outage struct {
	duration   time.Duration
	registered fsm.Epoch
}

// reachabilityChange is a change to be recorded in the log.
type reachabilityChange struct {
	node      fsm.NodeID
	host      fsm.HostID
	reachable bool
}

// decide takes a poll's result and returns what is to be proposed for these nodes.
func (d *failureDetector) decide(x pollResult, nodes []fsm.Node) []reachabilityChange {
	elapsed, restarted := d.clock.advance(x)
	if restarted {
		d.outages, d.silences = nil, nil
	}
	outages, silences := make(map[fsm.NodeID]outage, len(d.outages)), make(map[fsm.NodeID]outage, len(d.silences))
	var changes []reachabilityChange
	for _, n := range nodes {
		switch silentFor, hasSession := x.sessions[hostKey{n.ID, n.Host}]; {
		case n.State == fsm.NodeLost:
		case hasSession && n.State == fsm.NodeUnreachable:
			changes = append(changes, reachabilityChange{n.ID, n.Host, true})
		case hasSession && silentFor > d.lateHeartbeat:
			silences[n.ID] = outage{min(silentFor, d.maxSilence), n.Registered}
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

// extendOutage adds to a host's outage. A host that registered since then had a session,
// though that may have begun and ended between two polls: its outage restarts.
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
