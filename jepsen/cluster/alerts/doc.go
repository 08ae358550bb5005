// Package alerts has a real Prometheus scrape a cluster of processes under the chart's rules, and brings faults about: each alert
// becomes pending, then fires, and is silent again when its fault is over. The expressions are those of the chart; only the
// times for which they must hold are shortened.
//
// These alerts have no fault here, and are brought about in the unit tests of deploy/chart/files alone:
//   - Degraded, NoRedundancy, Frozen, OutOfSync, Differences, VerifyOld, ReplicationError, ReplicationBehind and VolumesApart need
//     the kernel's replication, which only guests have (jepsen/lab).
//   - ClockSkew and ClockUnset need another clock than the host's; Diverged and CSIErrors a bug; SlowDisk, SnapshotsFail and Stuck a disk that is
//     slow, fails or hangs; PoolMetadata a thin pool; VersionsDiffer another build.
//   - LoopIdle needs a Kubernetes (jepsen/kubernetes); PoolReserved and OperationFailed have no fault yet.
//   - KeyRotation, FenceUnfinished and Outbox need a host that is cut off between two steps; Elections and BackupOld hours.
package alerts
