package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// Volume is one provisioned volume, or one that is being created or deleted. A
// *Volume that came out of a State is immutable: values are replaced whole.
type Volume struct {
	ID          VolumeID
	Name        string
	Fingerprint []byte // of parameters and content source
	Size        int64  // bytes
	// Capabilities are those it was created with, sorted.
	Capabilities []Capability
	// Requisite is the accessibility that was requested.
	Requisite []Topology
	// Replicas has one element for local volumes, two for replicated ones.
	Replicas []Replica
	Format   Format
	Phase    Phase
	// Teardowns are pending on hosts whose publication was revoked before they ended
	// it (S31): the host must report it unstaged.
	Teardowns []Teardown
	// Operation is the host work under way or failed; nil when there is none.
	Operation *Operation
	// OtherOperations are operations of other kinds, from feature level 2 on; see Operations.
	OtherOperations []Operation
	Condition       Condition
	// Source is what it was made from; it never changes (zero: empty).
	Source Source
	// Limits are the I/O limits desired of the host where it is staged.
	Limits Limits
	// InitialLimits are those that it was created with, once they were modified; nil:
	// Limits are.
	InitialLimits *Limits
	// Claim is what the orchestrator calls it; nil: not known.
	Claim *Claim
	// Replication is set for a volume that was created with more than one replica.
	Replication *Replication
	Created     Epoch // when it was created
	Modified    uint64
}

// Claim is what an orchestrator calls a volume: its claim, and its own record of the
// volume. It is for people, and no part of what makes two requests equal.
type Claim struct{ Name, Namespace, Volume string }

// Phase is a volume's life: Creating -> Ready -> Deleting -> (gone), or Failed.
//
//sumtype:decl
type Phase interface{ phase() }

type (
	// Creating: placed and reserved; its host has not reported the device yet.
	Creating struct{}
	// Ready: the device exists. Only a Ready volume has publications.
	Ready struct {
		Publications []Publication // sorted by node
	}
	// Deleting: the name is free; the record is the pending removal of the devices (S18).
	Deleting struct{ Since Epoch }
	// Failed: the create failed for good; the next create with the name makes a
	// new volume and turns this one into a pending removal.
	Failed struct {
		Reason  string
		NoSpace bool // the host's pool was full
	}
)

func (Creating) phase() {}
func (Ready) phase()    {}
func (Deleting) phase() {}
func (Failed) phase()   {}

// Replica is one copy of a volume on one host.
type Replica struct {
	Node NodeID
	Host HostID
	Pool PoolID
	// State is what its host last reported.
	State ReplicaState
	// Undersized is set while a replica that takes part again is smaller than its volume, which
	// grew without it: it is grown before anybody uses it (S117).
	Undersized bool
	// Sequence is the host's last record of this volume; later ones are above it (S16).
	Sequence uint64
	// Size is what the host last reported of the device, in bytes; an expansion is
	// done when it is the volume's.
	Size int64
	// Limits are those the host last reported in force.
	Limits Limits
	// ReplicaSync is nil for a local volume, and where the log knows nothing of the replica's
	// content. Like the Volume it is immutable; withReplication copies it.
	*ReplicaSync
}

// ReplicaState is what the host last reported of a replica's device.
type ReplicaState uint8

const (
	// ReplicaPlanned: not yet reported made.
	ReplicaPlanned ReplicaState = iota + 1
	// ReplicaPresent: reported made.
	ReplicaPresent
	// ReplicaMissing: a Ready volume's device was reported missing (S14: never made again).
	ReplicaMissing
	// ReplicaGone: reported removed.
	ReplicaGone
	// ReplicaLeaving: being removed while the volume stays.
	ReplicaLeaving
)

// Format is whether and how the volume's content was initialised (S15).
type Format struct {
	Phase  fsmpb.FormatPhase
	FSType string
	FSUUID string
	// Epoch is of the stage that set Formatting, or that chose a clone's uuid.
	Epoch Epoch
	// Cloned: the filesystem was a source's. FSUUID is the source's until the first
	// stage chose another (Epoch is set then); the host gives the filesystem that
	// identity and reports Formatted, which ends this.
	Cloned bool
}

// Capability is a CSI capability without its mount flags.
type Capability struct {
	Mode   fsmpb.AccessMode
	Block  bool
	FSType string
	Flags  string // fingerprint of the mount flags; empty without
}

// Label is one segment of a topology.
type Label struct{ Key, Value string }

// Topology is one term, its segments sorted by key; all must hold.
type Topology []Label

// Condition is what CSI calls VolumeCondition.
type Condition struct {
	Abnormal bool
	Message  string
}

// Teardown is a pending teardown: the host must end a publication that was revoked.
type Teardown struct {
	Node  NodeID
	Host  HostID
	Epoch Epoch
}

// Publication is a node's right to use a Ready volume (S3).
type Publication struct {
	Node       NodeID
	Host       HostID
	Capability Capability
	ReadOnly   bool
	Epoch      Epoch
	// Staging is set from the intent to stage until the host reports it observed
	// no mount and no open device.
	Staging *Staging
	Targets []Target // sorted by path
	// Ending is set when the unpublish was requested while it is staged on a reachable host:
	// the host unstages it as soon as nothing uses it, and nothing more is staged or bound
	// under it. UsedBy is what still uses it, as the host reported.
	Ending bool
	UsedBy string
}

// Staging is a host's intent to stage, and whether it reported it done.
type Staging struct {
	Path       string
	Boot       string
	Capability Capability
	Done       bool
}

// Target is a host's intent to bind a staged volume to a path, and whether it reported it done.
type Target struct {
	Path        string
	ReadOnly    bool
	Capability  Capability
	Fingerprint string
	Done        bool
}
