package catalog

// servedByLab is what jepsen/lab/scenarios has.
var servedByLab = Served{
	Workloads: []Workload{Replicated, TakeOver, Publish, Stage, Snapshot, Expand, Replace, Writers},
	Faults: []Fault{
		PowerLoss, Kill, KillAll, LeaderChange, Pause, HostReboot,
		ReplicationCut, ManagementCut, BothNetworksCut, PartitionLeader, PartitionOneWay, NetworkFlapping, ResyncInterrupted,
		WriteError, ReplicaDisk, DiskSlow, DiskHung, PoolDataFull, PoolMetaFull,
	},
	Checks: []Check{
		Stamps, NoLostWrite, OnePrimary, ReplicasEqual, Audit, HashesEqual, Liveness, ClockOfTheLab, NothingWasEmpty,
	},
	Counts: []Count{PowerLosses},
}
