// Package cluster holds the tests that run a whole Holdfast as real processes on
// real loop devices and mounts, from the outside only, and inject faults into it. They
// need root; without it they say so and skip. `-args -long`, or HOLDFAST_LONG=1,
// runs them in their long form.
//
// TestFaults is the random run: eight clients on hot names, at any member, while an isolated cluster is broken in
// the ways that its seed chooses, until each was injected, members were elected and got the state as a dump.
// -faults.seed N chooses, -faults.duration D injects all faults for that long at least, and $HOLDFAST_REPORTS names
// the folder of its report. A run is not replayed to the bit: its seed chooses the same faults in the same order.
package cluster
