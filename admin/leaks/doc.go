// Package leaks compares an orchestrator's list of volumes, snapshots and attachments with the state, and says what only one
// of the two has. It changes nothing. A list counts only as a whole: with one that was cut short, everything would be a leak.
package leaks
