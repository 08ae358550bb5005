// Package cluster holds the tests that run a whole Holdfast as real processes on
// real loop devices and mounts, from the outside only, and inject faults into it. They
// need root; without it they say so and skip. `-args -long`, or HOLDFAST_LONG=1,
// runs them in their long form.
package cluster
