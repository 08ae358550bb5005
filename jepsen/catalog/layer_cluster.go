package catalog

// servedByCluster is what jepsen/cluster has.
var servedByCluster = Served{
	Workloads: []Workload{CreateVolume, DeleteVolume, Publish, Expand, Modify, Snapshot, Clone, GroupSnapshot, Read, Stage},
	Faults: []Fault{
		Kill, KillAll, Pause, ClockStep, MemoryLimit, FewDescriptors, CertExpiry, MembershipChange, SnapshotStorm, RollingRestart, BackupRestore,
		PartitionOne, PartitionLeader, PartitionHalves, PartitionBridge, PartitionRing, PartitionOneWay,
		NetworkDelay, NetworkDrop, NetworkDuplicate, NetworkReset, NetworkFlapping, NetworkSlow,
		WriteError, FsyncError, DiskHung, DiskSlow, DiskFull, TornBatch, LostUnsynced,
	},
	Checks: []Check{
		Linearizable, CheckerEnded, Acknowledged, ReplayEqual, HashesEqual, LogsEqual, NoStaleRead, Audit, NoDuplicate, NoSecret, NoLeak, ServesAgain, NothingWasEmpty,
	},
	Counts: []Count{Acknowledgements, Elections, SnapshotInstalls, UnknownOutcomes},
}
