package fsm

import "testing"

// seedsUnderRace is how many random lives a test plays under the race detector.
const seedsUnderRace = 2

// seeds is how many of n random lives a test plays. The state machine starts no goroutines: a
// test that plays with it in one shows the race detector nothing, at ten times the cost. There it
// plays a few; the tests with goroutines play as always.
func seeds(n int) int {
	if raceEnabled {
		return min(n, seedsUnderRace)
	}
	return n
}

// skipUnderRace skips a long test in one goroutine, for the same reason.
func skipUnderRace(t testing.TB) {
	t.Helper()
	if raceEnabled {
		t.Skip("one goroutine: nothing for the race detector")
	}
}
