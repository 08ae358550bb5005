package executor

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Proposer is all that an executor may ask of the cluster.
type Proposer interface {
	// Propose has one of this host's commands applied: StageVolume, PublishTarget
	// or Report. It needs the quorum. The error is a *fsm.Rejection when it was
	// rejected; it has a method Unavailable() bool when there was no quorum.
	Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error)
}

// Update is news from a session: wishes as of an index of the log.
type Update struct {
	// At is when what it names was read. What it does not name may have changed before
	// that as well, unless it is Full.
	At          fsm.Epoch
	Full        bool // volumes that are not listed are unknown to the state
	Volumes     []fsm.DesiredVolume
	VolumesGone []fsm.VolumeID
	// Snapshots are the wishes for snapshots, SnapshotsGone those that nothing is
	// wanted of any more. Full means them too.
	Snapshots     []fsm.DesiredSnapshot
	SnapshotsGone []fsm.SnapshotID
	// Adopted is false while this host is in adoption mode (S1).
	Adopted bool
	// FeatureLevel is the cluster's feature level: what needs a higher one must not be
	// proposed, and what the host does instead is what that level knows (S72).
	FeatureLevel uint32
	// IncarnationID is the random id that tells apart two incarnations with the
	// same counter (S1); kept beside the highest epoch that was acted on.
	IncarnationID []byte
}
