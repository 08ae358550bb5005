package policy

import (
	"time"

	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/fsm"
)

// hostKey is a node's id with the id of its host: several hosts may claim one node id.
type hostKey struct {
	node fsm.NodeID
	host fsm.HostID
}

// pollResult is what one poll of all members showed, and whether this member led when it began.
type pollResult struct {
	at             time.Time
	term           uint64
	leading        bool
	voters         int // in the configuration
	answeredVoters int // of them, this member included
	// sessions are by host the time since its last message. A member that
	// did not answer counts as having none.
	sessions map[hostKey]time.Duration
}

func newPollResult(at time.Time, r *session.PollReplies, term uint64, leading bool) pollResult {
	x := pollResult{at: at, term: term, leading: leading, voters: r.Voters, answeredVoters: r.AnsweredVoters, sessions: map[hostKey]time.Duration{}}
	for _, s := range r.Sessions {
		x.addSession(hostKey{fsm.NodeID(s.GetNodeId()), fsm.HostID(s.GetHostId())}, time.Duration(s.GetQuietNanos()))
	}
	return x
}

// addSession adds a session. Of two sessions of a host the one with the later message counts.
func (x *pollResult) addSession(k hostKey, silentFor time.Duration) {
	if known, found := x.sessions[k]; !found || silentFor < known {
		x.sessions[k] = silentFor
	}
}

func (x *pollResult) hasMajority() bool { return 2*x.answeredVoters > x.voters }

// pollClock measures the time that polls observed. Only time between two polls
// counts, and at most two intervals of it: while this process was stopped it observed
// nothing.
type pollClock struct {
	interval time.Duration

	term        uint64    // that this member leads in; 0: it does not
	sawMajority bool      // a majority of the voters answered once, and since then whenever it did not lead
	lastPoll    time.Time // zero before the first
}

// advance is the time since the poll before that counts. When restarted is true, what was
// counted before this poll does not count any more.
func (c *pollClock) advance(x pollResult) (elapsed time.Duration, restarted bool) {
	if restarted = !c.stillCounts(x); restarted {
		*c = pollClock{interval: c.interval}
	}
	c.term = 0
	if x.leading {
		c.term = x.term
	}
	elapsed = min(x.at.Sub(c.lastPoll), 2*c.interval)
	if !c.sawMajority {
		elapsed = 0 // before a majority answered, another member may have had any session
		c.sawMajority = x.hasMajority()
	}
	c.lastPoll = x.at
	return max(elapsed, 0), restarted
}

// stillCounts tells whether the time counted so far still counts. A leader has a majority that
// follows it, whichever members answer; a follower needs answers of a majority.
func (c *pollClock) stillCounts(x pollResult) bool {
	return x.hasMajority() || x.leading && x.term == c.term
}
