// Package jepsen holds what looks at Holdfast from outside: whether all of it holds while everything that can go wrong does.
//
// There are four layers, from the fastest and most pretended to the slowest and most real. They say what they do, break and verify in
// one vocabulary (jepsen/catalog, whose CATALOG.md is the table of which layer has what), and each run is one record
// (jepsen/report): it is judged, and fails when it was empty, and is shown as one HTML page.
//
//   - L0 jepsen/sim: the state machine, executors, sessions and CSI servers over a pretended world, on one goroutine and virtual time.
//     A seed decides everything, and is replayed to the bit. It finds wrong orders, crashes at the wrong place and lost wake-ups.
//   - L1 jepsen/raftsim: three and five real Raft members over pretended networks and disks. It finds what Raft, its stores and its
//     snapshots do when both fail.
//   - L2 jepsen/cluster: processes, each with a network and a filesystem of its own. It finds what kernels, clocks and
//     certificates do.
//   - L3 jepsen/lab/scenarios: guests with kernels and DRBD. It finds what the models of L0 have wrong.
//
// # To run them
//
//	make sims                        the short forms of L0 and L1, as in make test
//	make jepsen                      ten minutes over L0 to L2 (LAB_TOO=1: and L3)
//	make jepsen-long HOURS=10        hours; interrupted, it continues where it was
//	make jepsen-replay SEED=sim:17   one seed again, with its story
//	make planted                     the bugs that are planted in the product, against the layer that must find each
//	make mutants                     one-line changes of the product's decisions, against the tests
//
// All keep what they find below .cache/jepsen: reports/index.html lists the runs, logs has the output of those that failed.
//
// # Whether they find anything
//
// Three things say whether the net holds. jepsen/planted/PLANTED.md says for each planted bug (package plantedbug) which layer found it
// and after how much. jepsen/mutants/MUTANTS.md says which one-line changes no test notices, with a reason for each. TRACK.md
// is the record of the real bugs that the layers found; the seed of each stays as a regression.
//
// # When a layer finds something
//
// First the seed: it goes into the layer's list of regressions, and fails there. Then the mend, in a commit of its own with a test in the
// package that was wrong. Then a row in TRACK.md. A finding that is the layer's own mistake is mended there, and what the layer
// believed wrongly of the world is said at the place.
package jepsen
