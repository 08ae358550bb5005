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

// The kinds of things in an inventory.
const (
	// KindImage is a finished image of a volume.
	KindImage = "image"
	// KindUnfinished is what an interrupted create left.
	KindUnfinished = "unfinished"
	// KindDevice is a block device of an image.
	KindDevice = "loop"
	// KindMount is a mount of such a device.
	KindMount = "mount"
	// KindSnapshot is a finished snapshot.
	KindSnapshot = "snapshot"
	// KindResource is a replicated volume's resource, in the kernel or in files.
	KindResource = "resource"
)

// InventoryItem is one thing found below a pool, or in the kernel for a device of it.
type InventoryItem struct {
	Kind   string // one of the kinds above
	Volume fsm.VolumeID
	// Snapshot is set instead of ID for a snapshot, finished or not.
	Snapshot fsm.SnapshotID
	Path     string
}

// PoolFacts is what was measured of a pool.
type PoolFacts struct {
	ID         fsm.PoolID
	Free       int64 // bytes
	Capacity   int64 // bytes
	Absent     bool  // not mounted, or without its id file (S12)
	FullCopies bool  // a snapshot or a clone is a whole copy: it shares no blocks
	Detail     string
}
