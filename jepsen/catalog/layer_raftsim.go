package catalog

// servedByRaftSim is what jepsen/raftsim has.
var servedByRaftSim = Served{
	Workloads: []Workload{Proposals, Read},
	Faults: []Fault{
		Kill, KillAll, Pause, PowerLoss, MembershipChange, LeaderChange, SnapshotStorm, SnapshotFrozen,
		PartitionOne, PartitionLeader, PartitionHalves, PartitionBridge, PartitionRing, PartitionOneWay,
		NetworkDrop, NetworkDelay, NetworkDuplicate, NetworkReset, NetworkFlapping, NetworkSlow,
		WriteError, FsyncError, DiskHung, DiskSlow, DiskFull, TornBatch, LostUnsynced, CorruptSnapshot,
	},
	Checks: []Check{
		Invariants, Linearizable, Acknowledged, ReplayEqual, HashesEqual, NoStaleRead, OneLeaderATerm, LogsEqual, RefusesDamage, ServesAgain,
		WatchWakes, NoLeak,
	},
	Counts: []Count{Acknowledgements, Elections, SnapshotInstalls, UnknownOutcomes},
}
