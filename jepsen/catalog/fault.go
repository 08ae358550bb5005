package catalog

// Fault is something that goes wrong on purpose.
type Fault string

// Faults of processes and machines.
const (
	Kill           Fault = "kill"             // a process is killed and started again
	KillAll        Fault = "kill-all"         // every process at once
	Pause          Fault = "pause"            // a process or guest stands still and goes on later
	CrashAtEffect  Fault = "crash-at-effect"  // a host's process ends just before or just after one effect
	HostReboot     Fault = "host-reboot"      // a host starts again in order: nothing in memory, its disks whole
	PowerLoss      Fault = "power-loss"       // a machine loses its memory and what its disks had not made durable
	ClockStep      Fault = "clock-step"       // a wall clock jumps
	MemoryLimit    Fault = "memory-limit"     // a process has too little memory
	FewDescriptors Fault = "few-descriptors"  // a process may open few files
	CertExpiry     Fault = "cert-expiry"      // certificates run out and are renewed
	HostSilent     Fault = "host-unreachable" // no controller has a host's session for longer than the timeout
)

// Faults of the log, its members and their versions.
const (
	ProposalDropped    Fault = "proposal-dropped"     // a command never gets into the log
	ProposalDelayed    Fault = "proposal-delayed"     // a command gets into the log late
	ProposalDuplicated Fault = "proposal-duplicated"  // a command gets into the log twice
	OutcomeUnknown     Fault = "outcome-unknown"      // a command is committed and its proposer is told nothing
	LeaderChange       Fault = "leader-change"        // another member leads
	MessageDelayed     Fault = "message-delayed"      // what a session sends arrives late
	SessionCut         Fault = "session-cut"          // a session between a host and a controller ends
	LateRegistration   Fault = "late-registration"    // a host's registration arrives after that of its next session
	StaleSource        Fault = "stale-source"         // a host is told of its desired state by a member that is behind
	MembershipChange   Fault = "membership-change"    // members are added, removed and replaced
	SnapshotStorm      Fault = "raft-snapshot-storm"  // Raft snapshots are taken and installed all the time
	SnapshotFrozen     Fault = "raft-snapshot-frozen" // a leader stands still in the middle of sending a Raft snapshot
	RollingRestart     Fault = "rolling-restart"      // members are restarted one by one, with another version where there is one
	BackupRestore      Fault = "backup-restore"       // a cluster is restored from a backup
)

// Faults of networks.
const (
	PartitionOne      Fault = "partition-one"      // one member is alone
	PartitionLeader   Fault = "partition-leader"   // the leader is alone
	PartitionHalves   Fault = "partition-halves"   // two sides
	PartitionBridge   Fault = "partition-bridge"   // two sides that only one member reaches both of
	PartitionRing     Fault = "partition-ring"     // each member reaches its neighbours only
	PartitionOneWay   Fault = "partition-one-way"  // messages are lost in one direction
	NetworkDrop       Fault = "network-drop"       // single messages are lost
	NetworkDelay      Fault = "network-delay"      // messages arrive late
	NetworkDuplicate  Fault = "network-duplicate"  // messages arrive twice
	NetworkReset      Fault = "network-reset"      // connections are reset
	NetworkFlapping   Fault = "network-flapping"   // a link goes down and up again quickly
	NetworkSlow       Fault = "network-slow"       // a link carries few bytes a second
	ReplicationCut    Fault = "replication-cut"    // DRBD's connection is cut, and the control network is not
	ManagementCut     Fault = "management-cut"     // the control network is cut, and DRBD's is not
	BothNetworksCut   Fault = "both-networks-cut"  // a host is alone
	ResyncInterrupted Fault = "resync-interrupted" // a resynchronisation is cut off in its middle
)

// Faults of disks, and of files on them.
const (
	WriteError      Fault = "write-error"        // a write fails
	FsyncError      Fault = "fsync-error"        // a sync fails, and what it was for may be lost
	DiskHung        Fault = "disk-hung"          // input and output hang
	DiskSlow        Fault = "disk-slow"          // input and output are slow
	DiskFull        Fault = "disk-full"          // no room on a filesystem
	TornBatch       Fault = "torn-batch"         // of one write only a part is there after a crash
	LostUnsynced    Fault = "lost-unsynced"      // what was not synced is gone after a crash
	CorruptSnapshot Fault = "corrupt-snapshot"   // a Raft snapshot's file is damaged
	PoolDataFull    Fault = "pool-data-full"     // a thin pool has no room for data
	PoolMetaFull    Fault = "pool-metadata-full" // a thin pool has no room for metadata
	ReplicaDisk     Fault = "replica-disk-fails" // the disk under a replica fails while it is used
)

// Faults of a host's tools.
const (
	ToolFails Fault = "tool-fails" // a command fails, having done nothing
	ToolHangs Fault = "tool-hangs" // a command never ends
	ToolLies  Fault = "tool-lies"  // a command fails although it did what it was asked to do
)
