package executor

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Proposer is all that a host may ask of the Raft log.
type Proposer interface {
	// Propose has one of this host's commands applied, such as StageVolume, PublishTarget
	// or Report. It needs a quorum. A rejection is a *fsm.Rejection; the error of a missing
	// quorum has a method Unavailable() bool that returns true.
	Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error)
}

// Update is what a session delivers: desired state as of an index of the log.
type Update struct {
	// At is when the listed entities were read. Unless the update is Full, entities that it
	// does not list may also have changed before At.
	At          fsm.Epoch
	Full        bool // volumes that are not listed are unknown to the state
	Volumes     []fsm.DesiredVolume
	VolumesGone []fsm.VolumeID
	// Snapshots are the desired states of snapshots; SnapshotsGone have none any more.
	// Full holds for them as well.
	Snapshots     []fsm.DesiredSnapshot
	SnapshotsGone []fsm.SnapshotID
	// Adopted is false while this host is in adoption mode (S1).
	Adopted bool
	// FeatureLevel is the cluster's. What needs a higher level is not proposed; the host
	// does what that level defines instead (S72).
	FeatureLevel uint32
	// IncarnationID is random and distinguishes two incarnations with the same counter
	// (S1). It is recorded together with the acted epoch.
	IncarnationID []byte
}
