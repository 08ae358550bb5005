//go:build race

package fsm

// raceEnabled: the race detector watches.
const raceEnabled = true
