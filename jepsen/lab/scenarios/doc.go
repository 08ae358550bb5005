// Package scenarios is what must hold of replicated volumes on real kernels: power loss,
// partitions in every shape, failing disks, full pools, each against three guests with
// LVM thin pools and DRBD that run Holdfast as hosts do. The scenarios are tests; the
// short form runs in CI, -long repeats them.
package scenarios
