//go:build race

package sim

// raceEnabled: the detector makes a seed ten times as long.
const raceEnabled = true
