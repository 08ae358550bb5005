package catalog

// servedBySim is what jepsen/sim has.
var servedBySim = Served{
	Workloads: []Workload{
		CreateVolume, DeleteVolume, Publish, Stage, Expand, Modify, Snapshot, Clone, GroupSnapshot, Read, Replicated, Replace, TakeOver,
		Encrypted, RotateKey, TwoSites, Writers, Operator,
	},
	Faults: []Fault{
		CrashAtEffect, HostReboot, PowerLoss, HostSilent,
		ProposalDropped, ProposalDelayed, ProposalDuplicated, OutcomeUnknown, LeaderChange, MessageDelayed, SessionCut, LateRegistration, StaleSource,
		ReplicationCut, ResyncInterrupted, ReplicaDisk, PoolDataFull, ToolFails, ToolHangs, ToolLies,
	},
	Checks: []Check{
		Invariants, Acknowledged, ReplayEqual, HashesEqual, NoDuplicate, Audit, Stamps, NoLostWrite, OnePrimary, InstantEqual, FreshIsZero,
		FormatOnce, Keys, Sites, Liveness, ReplaysEqual, EffectsCovered, NothingWasEmpty,
	},
	Counts: []Count{Acknowledgements, Elections, SnapshotInstalls, UnknownOutcomes},
}
