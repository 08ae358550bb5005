//go:build !race

package fsm

// raceEnabled: the race detector does not watch.
const raceEnabled = false
