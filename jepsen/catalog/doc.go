// Package catalog is the one vocabulary of the layers under jepsen: what they do (workloads), what they break (faults), what they
// verify (checks) and what a run must have seen to count (counts), and which layer serves which of them.
//
//   - The names of workloads, faults, checks and counts are in workload.go, fault.go, check.go and count.go, each with one line that
//     says what it is.
//   - What each layer serves is in layer_sim.go, layer_raftsim.go, layer_cluster.go and layer_lab.go.
//   - Each layer compares what its code really has with its file by Differences, in a test of its own: a claim that the
//     catalogue does not have fails it, and so does one of the catalogue's that the layer has no code for.
//
// A name is spelled in reports, in flags and in the lines of a run's record, so it is never changed.
package catalog
