// Package scenarios tests replicated volumes on real kernels: power loss, partitions of every kind, failing
// disks, full pools, fences by another site, space that is reclaimed, each with three guests with LVM thin pools and DRBD
// that run Holdfast as hosts do. The short form runs in CI, -long repeats the scenarios.
//
// Those that have S38 in their names are of volumes and groups that are replicated between two sites, called as the
// controllers of CSI-Addons call: they share one lab of sites A and B and a witness, one guest each; -wide has two each.
// TestS38_S39_S41_ManagersUnderPartitions takes a seed, -sites.seed.
//
// TestAlertsOf... have a real Prometheus on the host scrape the guests' processes under the chart's rules: alerts that need kernels, disks or
// clocks become pending, fire, and end with their faults. Theirs is a lab whose clocks begin a month ago, or that of the sites.
//
// TestRandomFaults is all of it at random: rounds in which faults that a seed chooses overlap, under writers on raw
// volumes and filesystems with one replica and two. A round ends when everything works again by itself; then the
// replicas' own devices are read, and package stamps judges them. One round runs in CI; longer:
//
//	go test ./jepsen/lab/scenarios -run '^TestRandomFaults$' -timeout 4h -v -args -random.seed=7 -random.duration=3h
//
// A seed repeats the choices, and not the moments: guests share the machine with whatever else runs there.
package scenarios
