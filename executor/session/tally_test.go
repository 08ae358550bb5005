package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// seen is an exchange of all three voters at a second, led in term 1.
func seen(second int, hosts ...string) exchange {
	x := exchange{at: time.Unix(int64(second), 0), term: 1, leading: true, voters: 3, answered: 3, sessions: map[host]time.Duration{}}
	for _, h := range hosts {
		x.hears(host{"n1", fsm.HostID(h)}, 0)
	}
	return x
}

func answeredBy(n int, x exchange) exchange { x.answered = n; return x }
func inTerm(term uint64, x exchange) exchange {
	x.term = term
	return x
}

// following is an exchange of a member that does not lead.
func following(x exchange) exchange {
	x.term, x.leading = 0, false
	return x
}

func quietFor(quiet time.Duration, x exchange) exchange {
	for h := range x.sessions {
		x.sessions[h] = quiet
	}
	return x
}

// seconds repeats an exchange over [from, to].
func seconds(from, to int, make func(second int) exchange) []exchange {
	var all []exchange
	for s := from; s <= to; s++ {
		all = append(all, make(s))
	}
	return all
}

func missing(s int) exchange { return seen(s) }
func here(s int) exchange    { return seen(s, "h1") }

func join(parts ...[]exchange) (all []exchange) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func TestS25_ANodeIsUnreachableOnlyWhenNoMemberHadItsSessionForTheTimeout(t *testing.T) {
	reachable := fsm.Node{ID: "n1", Host: "h1", State: fsm.NodeReachable, Registered: fsm.Epoch{Index: 5}}
	unreachable, lost := reachable, reachable
	unreachable.State, lost.State = fsm.NodeUnreachable, fsm.NodeLost
	down, up := []edge{{"n1", "h1", false}}, []edge{{"n1", "h1", true}}
	for name, tc := range map[string]struct {
		node      fsm.Node
		exchanges []exchange
		want      []edge // of the last exchange
	}{
		"missing for the timeout":                           {reachable, seconds(0, 10, missing), down},
		"missing for less":                                  {reachable, seconds(0, 9, missing), nil},
		"missing for longer: it is proposed again":          {reachable, seconds(0, 30, missing), down},
		"a session in between begins the count again":       {reachable, join(seconds(0, 8, missing), seconds(9, 9, here), seconds(10, 18, missing)), nil},
		"and it ends":                                       {reachable, join(seconds(0, 8, missing), seconds(9, 9, here), seconds(10, 20, missing)), down},
		"a session of another host id does not count (S17)": {reachable, seconds(0, 10, func(s int) exchange { return seen(s, "h2") }), down},
		"one of two sessions is the host's":                 {reachable, seconds(0, 10, func(s int) exchange { return seen(s, "h2", "h1") }), nil},
		"without a majority nothing is counted": {reachable,
			seconds(0, 30, func(s int) exchange { return answeredBy(1, missing(s)) }), nil},
		"the count begins with the first majority": {reachable,
			join(seconds(0, 20, func(s int) exchange { return answeredBy(1, missing(s)) }), seconds(21, 30, missing)), nil},
		"and ends the timeout after it": {reachable,
			join(seconds(0, 20, func(s int) exchange { return answeredBy(1, missing(s)) }), seconds(21, 31, missing)), down},
		"after it a member that does not answer has no session": {reachable,
			join(seconds(0, 0, missing), seconds(1, 10, func(s int) exchange { return answeredBy(1, missing(s)) })), down},
		"a new term goes on where a majority answers": {reachable,
			join(seconds(0, 4, missing), seconds(5, 10, func(s int) exchange { return inTerm(2, missing(s)) })), down},
		"a new leader goes on from what it counted as a follower": {reachable,
			join(seconds(0, 7, func(s int) exchange { return following(missing(s)) }), seconds(8, 10, missing)), down},
		"and not earlier": {reachable,
			join(seconds(0, 7, func(s int) exchange { return following(missing(s)) }), seconds(8, 9, missing)), nil},
		"a follower that no majority answered begins again": {reachable,
			join(seconds(0, 7, func(s int) exchange { return following(missing(s)) }),
				seconds(8, 8, func(s int) exchange { return following(answeredBy(1, missing(s))) }), seconds(9, 18, missing)), nil},
		"a leader that no majority answered, and then another term": {reachable,
			join(seconds(0, 9, missing), seconds(10, 40, func(s int) exchange { return inTerm(2, answeredBy(1, missing(s))) })), nil},
		"the silence of a session that is then found dead counts": {reachable,
			join(seconds(0, 0, here), seconds(1, 1, func(s int) exchange { return quietFor(2*time.Second, here(s)) }), seconds(2, 10, missing)), down},
		"and no longer": {reachable,
			join(seconds(0, 0, here), seconds(1, 1, func(s int) exchange { return quietFor(2*time.Second, here(s)) }), seconds(2, 9, missing)), nil},
		"at most what a session may be silent": {reachable,
			join(seconds(0, 0, here), seconds(1, 1, func(s int) exchange { return quietFor(time.Hour, here(s)) }), seconds(2, 8, missing)), nil},
		"a pause between two beats is no silence": {reachable,
			join(seconds(0, 0, here), seconds(1, 1, func(s int) exchange { return quietFor(time.Second, here(s)) }), seconds(2, 11, missing)), nil},
		"nor is one that the host ended": {reachable,
			join(seconds(0, 0, func(s int) exchange { return quietFor(2*time.Second, here(s)) }), seconds(1, 1, here), seconds(2, 11, missing)), nil},
		"of two sessions of a host the livelier one counts": {reachable,
			join(seconds(0, 0, func(s int) exchange {
				x := quietFor(2*time.Second, here(s))
				x.hears(host{"n1", "h1"}, 0)
				x.hears(host{"n1", "h1"}, time.Hour)
				return x
			}), seconds(1, 10, missing)), nil},
		"a leader that was stopped counts what it looked at":        {reachable, join(seconds(0, 2, missing), seconds(600, 600, missing)), nil},
		"a clock that goes back counts nothing":                     {reachable, join(seconds(0, 5, missing), seconds(1, 1, missing)), nil},
		"an unreachable node that is missing stays so":              {unreachable, seconds(0, 30, missing), nil},
		"an unreachable node that is back is reachable at once":     {unreachable, join(seconds(0, 1, missing), seconds(2, 2, here)), up},
		"an unreachable name with another host is not it":           {unreachable, seconds(0, 2, func(s int) exchange { return seen(s, "h2") }), nil},
		"a lost node is nobody's concern":                           {lost, seconds(0, 30, missing), nil},
		"a lost node does not come back by a session":               {lost, seconds(0, 30, here), nil},
		"a node that was here for long goes away for less":          {reachable, join(seconds(0, 99, here), seconds(100, 108, missing)), nil},
		"the first exchange alone says nothing, however late it is": {reachable, seconds(10_000, 10_000, missing), nil},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				tally := tally{timeout: 10 * time.Second, interval: time.Second}
				var got []edge
				for _, x := range tc.exchanges {
					got = tally.decide(x, []fsm.Node{tc.node})
				}
				require.Equal(t, tc.want, got)
			}
		})
	}
}

func TestS25_ARegistrationBetweenTwoExchangesCountsAsSeen(t *testing.T) {
	tally := tally{timeout: 10 * time.Second, interval: time.Second}
	n := fsm.Node{ID: "n1", Host: "h1", State: fsm.NodeReachable, Registered: fsm.Epoch{Index: 5}}
	for _, x := range seconds(0, 9, missing) {
		require.Empty(t, tally.decide(x, []fsm.Node{n}))
	}
	n.Registered.Index = 70
	for _, x := range seconds(10, 19, missing) {
		require.Empty(t, tally.decide(x, []fsm.Node{n}))
	}
	require.Len(t, tally.decide(missing(20), []fsm.Node{n}), 1)
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
				require.Equal(t, tc.want, skew(tc.offsets))
			}
		})
	}
}
