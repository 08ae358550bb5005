package executor

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// KindCandidate is a device of a pool's storage that is not Holdfast's; see InventoryItem.Candidate.
const KindCandidate = "candidate"

// ImportBackend is what a Backend offers whose storage can have devices of others that a volume can be made of. None
// of its methods writes to a device's content.
type ImportBackend interface {
	// Candidates lists the devices beside Holdfast's own, with the signatures that are on them. It changes nothing.
	Candidates(ctx context.Context) ([]ImportCandidate, error)
	// Locate finds a device by the storage's own identity of it, under whichever name it has: Path is empty while it is
	// not active. It is Precondition when it is not there, and InUse while anything has it open. It changes nothing.
	Locate(ctx context.Context, device string) (Device, error)
	// Import makes a device the volume's image, as it is: size is its size in bytes, and device the storage's own
	// identity of it. It is InUse while anything has the device open, and Precondition when the device is not there,
	// was replaced, or has another size. An image that is this device is success. Interrupted, it leaves the device
	// under either name, and Device.Unfinished, and is repeated or ended by GiveBack.
	Import(ctx context.Context, id fsm.VolumeID, size int64, device string) error
	// GiveBack ends what Import did: the device has its former name and is nobody's volume. It is InUse while the image
	// is active, and Precondition when the image is another device or the former name is taken. A device that is
	// nobody's volume, or is not there at all, is success.
	GiveBack(ctx context.Context, id fsm.VolumeID, device string) error
}

// ImportCandidate is a device that could be imported.
type ImportCandidate struct {
	Device, Name string // the storage's own identity of it, and its name there
	Size         int64  // bytes
	// Refusal is why the storage cannot have it as a volume, whatever is on it; empty: it can.
	Refusal string
	// Path and Number are of its block device; empty when it is not active.
	Path      string
	Number    uint64
	OpenCount int32
	// Probed: Signatures are all that were found on it, by the names of wipefs.
	Probed     bool
	Signatures []string
	Detail     string // why it was not probed
}

// MetadataImporter is what a Replicator offers that can take in replicas of resources that are not Holdfast's.
type MetadataImporter interface {
	// ForeignMetadata reads the metadata on a device that nobody has open, and their dump, from which the tools of DRBD
	// make them again. It is nil where there are none, and an error where they cannot be read or there is more to be done
	// to them first, as after a crash or, with DRBD 8.4, each `down`. It writes nothing.
	ForeignMetadata(ctx context.Context, path string) (m *fsmpb.DrbdMetadata, dump []byte, err error)
	// ContentDigest is the SHA-256 of parts of a device's first bytes, which are the content: of its beginning, of its end,
	// and of some between, at places that follow from its size alone. It writes nothing.
	ContentDigest(ctx context.Context, path string, content int64) (digest []byte, err error)
	// ReplicatedBytes is the size in bytes of the replicated device above a device of so many bytes, and why it can be no
	// replica's; empty: it can.
	ReplicatedBytes(backing int64) (size int64, refusal string)
	// ClearBehind overwrites a device from an offset in bytes to its end with zeroes, and syncs it. Nobody else has it open.
	ClearBehind(ctx context.Context, path string, from int64) error
}
