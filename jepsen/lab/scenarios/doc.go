// Package scenarios tests replicated volumes on real kernels: power loss, partitions of every kind, failing
// disks, full pools, each with three guests with LVM thin pools and DRBD that run Holdfast as hosts do. The
// short form runs in CI, -long repeats the scenarios.
package scenarios
