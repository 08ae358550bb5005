package catalog

// Count is something that a run counts because a run without it proves nothing.
type Count string

// The counts.
const (
	Elections        Count = "elections"               // leaders that were elected
	SnapshotInstalls Count = "raft-snapshot-installs"  // members that got the state as a dump
	UnknownOutcomes  Count = "unknown-outcomes"        // calls whose outcome the client was not told
	Acknowledgements Count = "acknowledged-operations" // calls that were answered with success
	PowerLosses      Count = "power-losses"            // machines that lost power
)
