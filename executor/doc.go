// Package executor is what the parts of a host agree on: what a pool (Backend), a
// replicator (Replicator) and the host's kernel (Mounter, Freezer, FilesystemTools,
// Throttle) offer, what may be asked of the log, what a session says (Update), and what a
// call asks. It does nothing itself.
//
// The rooms:
//
//	plan     every choice: what is wanted and observed goes in, one step comes out; pure
//	records  what a host keeps on disk
//	agent    the engine: it observes, has plan choose, does the step, and reports
//	session  the stream between a host and its controllers
//	lvm, loopfile           backends; drbd is the replicator, fencepeer its kernel's handler
//	mount, freeze, throttle the host's kernel; run runs commands
package executor
