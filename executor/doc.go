// Package executor is the contract between the parts of a host: what a pool (Backend), a
// replicator (Replicator) and the host's kernel (Mounter, Freezer, FilesystemTools,
// Throttle) offer, what may be proposed to the Raft log (Proposer), what a session delivers
// (Update), and the arguments of CSI's calls. It has no behaviour of its own.
//
// The packages below it:
//
//	plan     every choice: pure functions from what is observed, recorded and desired to one step
//	records  the records that a host keeps on disk
//	agent    the engine: observe, let plan choose, do the step, report
//	session  the stream between a host and its controllers
//	policy   the controllers' failure detector and replica replacer
//	lvm, loopfile           backends
//	drbd, fencepeer         the replicator, and the kernel's fence-peer handler
//	mount, freeze, throttle the host's kernel
//	run                     runs the host's commands
//	backendtest             the contracts as tests, and fakes that keep them
//	drbd/drbdmodel          one volume's DRBD on two hosts as a pure model for tests
package executor
