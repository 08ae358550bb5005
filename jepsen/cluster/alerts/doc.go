// Package alerts has a real Prometheus scrape a cluster of processes under the chart's rules, and brings faults about: each alert
// becomes pending, then fires, and is silent again when its fault is over. The expressions are those of the chart; only the
// times for which they must hold are shortened. Those that look at a quarter of an hour or an hour of the past (Elections,
// BackupFailed, Restarts, SnapshotsFail) are over when that has passed, which nobody waits for here.
//
// The faults are those of operators, and none is planted: a member of which a text in memory is changed stands for memory that lies.
// What takes the kernel's replication, thin pools, other clocks or disks that hang is brought about in guests (jepsen/lab/scenarios),
// and what takes a Kubernetes there (jepsen/kubernetes/stories). TestEveryAlertIsBroughtAbout of jepsen/prometheus holds the list:
// it says of each alert that has no fault anywhere why.
package alerts
