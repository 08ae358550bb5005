package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// pollAt is a poll at a second that all three voters answer, of the leader of term 1.
func pollAt(second int, hosts ...string) pollResult {
	x := pollResult{at: time.Unix(int64(second), 0), term: 1, leading: true, voters: 3, answeredVoters: 3, sessions: map[hostKey]time.Duration{}}
	for _, h := range hosts {
		x.addSession(hostKey{"n1", fsm.HostID(h)}, 0)
	}
	return x
}

func withVoters(n int, x pollResult) pollResult { x.answeredVoters = n; return x }
func inTerm(term uint64, x pollResult) pollResult {
	x.term = term
	return x
}

// asFollower is the poll of a member that does not lead.
func asFollower(x pollResult) pollResult {
	x.term, x.leading = 0, false
	return x
}

func withSilence(silentFor time.Duration, x pollResult) pollResult {
	for h := range x.sessions {
		x.sessions[h] = silentFor
	}
	return x
}

// repeatPoll repeats a poll over [from, to] seconds.
func repeatPoll(from, to int, newResult func(second int) pollResult) []pollResult {
	var all []pollResult
	for s := from; s <= to; s++ {
		all = append(all, newResult(s))
	}
	return all
}

func pollWithoutSession(s int) pollResult { return pollAt(s) }
func pollWithSession(s int) pollResult    { return pollAt(s, "h1") }

func concat(parts ...[]pollResult) (all []pollResult) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func TestS25_ANodeIsUnreachableOnlyWhenNoMemberHadItsSessionForTheTimeout(t *testing.T) {
	reachable := fsm.Node{ID: "n1", Host: "h1", State: fsm.NodeReachable, Registered: fsm.Epoch{Index: 5}}
	unreachable, lost := reachable, reachable
	unreachable.State, lost.State = fsm.NodeUnreachable, fsm.NodeLost
	down, up := []reachabilityChange{{"n1", "h1", false}}, []reachabilityChange{{"n1", "h1", true}}
	for name, tc := range map[string]struct {
		node  fsm.Node
		polls []pollResult
		want  []reachabilityChange // of the last poll
	}{
		"missing for the timeout":                           {reachable, repeatPoll(0, 10, pollWithoutSession), down},
		"missing for less":                                  {reachable, repeatPoll(0, 9, pollWithoutSession), nil},
		"missing for longer: it is proposed again":          {reachable, repeatPoll(0, 30, pollWithoutSession), down},
		"a session in between restarts the count":           {reachable, concat(repeatPoll(0, 8, pollWithoutSession), repeatPoll(9, 9, pollWithSession), repeatPoll(10, 18, pollWithoutSession)), nil},
		"and it ends":                                       {reachable, concat(repeatPoll(0, 8, pollWithoutSession), repeatPoll(9, 9, pollWithSession), repeatPoll(10, 20, pollWithoutSession)), down},
		"a session of another host id does not count (S17)": {reachable, repeatPoll(0, 10, func(s int) pollResult { return pollAt(s, "h2") }), down},
		"one of two sessions is the host's":                 {reachable, repeatPoll(0, 10, func(s int) pollResult { return pollAt(s, "h2", "h1") }), nil},
		"without a majority nothing is counted": {reachable,
			repeatPoll(0, 30, func(s int) pollResult { return withVoters(1, pollWithoutSession(s)) }), nil},
		"the count begins with the first majority": {reachable,
			concat(repeatPoll(0, 20, func(s int) pollResult { return withVoters(1, pollWithoutSession(s)) }), repeatPoll(21, 30, pollWithoutSession)), nil},
		"and ends the timeout after it": {reachable,
			concat(repeatPoll(0, 20, func(s int) pollResult { return withVoters(1, pollWithoutSession(s)) }), repeatPoll(21, 31, pollWithoutSession)), down},
		"after it a member that does not answer has no session": {reachable,
			concat(repeatPoll(0, 0, pollWithoutSession), repeatPoll(1, 10, func(s int) pollResult { return withVoters(1, pollWithoutSession(s)) })), down},
		"a new term continues where a majority answers": {reachable,
			concat(repeatPoll(0, 4, pollWithoutSession), repeatPoll(5, 10, func(s int) pollResult { return inTerm(2, pollWithoutSession(s)) })), down},
		"a new leader continues from what it counted as a follower": {reachable,
			concat(repeatPoll(0, 7, func(s int) pollResult { return asFollower(pollWithoutSession(s)) }), repeatPoll(8, 10, pollWithoutSession)), down},
		"and not earlier": {reachable,
			concat(repeatPoll(0, 7, func(s int) pollResult { return asFollower(pollWithoutSession(s)) }), repeatPoll(8, 9, pollWithoutSession)), nil},
		"a follower that no majority answered begins again": {reachable,
			concat(repeatPoll(0, 7, func(s int) pollResult { return asFollower(pollWithoutSession(s)) }),
				repeatPoll(8, 8, func(s int) pollResult { return asFollower(withVoters(1, pollWithoutSession(s))) }), repeatPoll(9, 18, pollWithoutSession)), nil},
		"a leader that no majority answered, and then another term": {reachable,
			concat(repeatPoll(0, 9, pollWithoutSession), repeatPoll(10, 40, func(s int) pollResult { return inTerm(2, withVoters(1, pollWithoutSession(s))) })), nil},
		"the silence of a session that is then found dead counts": {reachable,
			concat(repeatPoll(0, 0, pollWithSession), repeatPoll(1, 1, func(s int) pollResult { return withSilence(2*time.Second, pollWithSession(s)) }), repeatPoll(2, 10, pollWithoutSession)), down},
		"and no longer": {reachable,
			concat(repeatPoll(0, 0, pollWithSession), repeatPoll(1, 1, func(s int) pollResult { return withSilence(2*time.Second, pollWithSession(s)) }), repeatPoll(2, 9, pollWithoutSession)), nil},
		"at most what a session may be silent": {reachable,
			concat(repeatPoll(0, 0, pollWithSession), repeatPoll(1, 1, func(s int) pollResult { return withSilence(time.Hour, pollWithSession(s)) }), repeatPoll(2, 8, pollWithoutSession)), nil},
		"the time between two heartbeats is no silence": {reachable,
			concat(repeatPoll(0, 0, pollWithSession), repeatPoll(1, 1, func(s int) pollResult { return withSilence(time.Second, pollWithSession(s)) }), repeatPoll(2, 11, pollWithoutSession)), nil},
		"nor is one that the host ended": {reachable,
			concat(repeatPoll(0, 0, func(s int) pollResult { return withSilence(2*time.Second, pollWithSession(s)) }), repeatPoll(1, 1, pollWithSession), repeatPoll(2, 11, pollWithoutSession)), nil},
		"of two sessions of a host the one with the later message counts": {reachable,
			concat(repeatPoll(0, 0, func(s int) pollResult {
				x := withSilence(2*time.Second, pollWithSession(s))
				x.addSession(hostKey{"n1", "h1"}, 0)
				x.addSession(hostKey{"n1", "h1"}, time.Hour)
				return x
			}), repeatPoll(1, 10, pollWithoutSession)), nil},
		"a leader that was stopped counts only what it observed": {reachable, concat(repeatPoll(0, 2, pollWithoutSession), repeatPoll(600, 600, pollWithoutSession)), nil},
		"a clock that goes back counts nothing":                  {reachable, concat(repeatPoll(0, 5, pollWithoutSession), repeatPoll(1, 1, pollWithoutSession)), nil},
		"an unreachable node that is missing stays so":           {unreachable, repeatPoll(0, 30, pollWithoutSession), nil},
		"an unreachable node that is back is reachable at once":  {unreachable, concat(repeatPoll(0, 1, pollWithoutSession), repeatPoll(2, 2, pollWithSession)), up},
		"an unreachable name with another host is not it":        {unreachable, repeatPoll(0, 2, func(s int) pollResult { return pollAt(s, "h2") }), nil},
		"a lost node stays lost":                                 {lost, repeatPoll(0, 30, pollWithoutSession), nil},
		"a lost node does not come back by a session":            {lost, repeatPoll(0, 30, pollWithSession), nil},
		"a node that had a session for long, missing for less":   {reachable, concat(repeatPoll(0, 99, pollWithSession), repeatPoll(100, 108, pollWithoutSession)), nil},
		"the first poll alone shows nothing, however late it is": {reachable, repeatPoll(10_000, 10_000, pollWithoutSession), nil},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				detector := newFailureDetector(10*time.Second, time.Second)
				var got []reachabilityChange
				for _, x := range tc.polls {
					got = detector.decide(x, []fsm.Node{tc.node})
				}
				require.Equal(t, tc.want, got)
			}
		})
	}
}

func TestS25_ARegistrationBetweenTwoPollsCountsAsASession(t *testing.T) {
	detector := newFailureDetector(10*time.Second, time.Second)
	n := fsm.Node{ID: "n1", Host: "h1", State: fsm.NodeReachable, Registered: fsm.Epoch{Index: 5}}
	for _, x := range repeatPoll(0, 9, pollWithoutSession) {
		require.Empty(t, detector.decide(x, []fsm.Node{n}))
	}
	n.Registered.Index = 70
	for _, x := range repeatPoll(10, 19, pollWithoutSession) {
		require.Empty(t, detector.decide(x, []fsm.Node{n}))
	}
	require.Len(t, detector.decide(pollWithoutSession(20), []fsm.Node{n}), 1)
}

func TestS27_TheClockIsComparedWithTheMedian(t *testing.T) {
	for name, tc := range map[string]struct {
		offsets []time.Duration // of the others
		want    time.Duration   // the own clock is ahead by
	}{
		"alone":                              {nil, 0},
		"both others are behind":             {[]time.Duration{-7 * time.Second, -8 * time.Second}, 7 * time.Second},
		"both others are ahead":              {[]time.Duration{6 * time.Second, 9 * time.Second}, -6 * time.Second},
		"one other is wrong":                 {[]time.Duration{time.Hour, time.Millisecond}, -time.Millisecond},
		"of two clocks none is known wrong":  {[]time.Duration{time.Hour}, 0},
		"of five, the middle":                {[]time.Duration{-9, -8, -7, time.Hour}, 7},
		"of four, the middle that is nearer": {[]time.Duration{-9, -8, time.Hour}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				require.Equal(t, tc.want, clockSkew(tc.offsets))
			}
		})
	}
}
