package records

import (
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// ReplicaRecord is what the host records of its replica of a replicated volume.
type ReplicaRecord struct {
	Minor uint32 `json:"minor"`
	// MetadataMade: the metadata were made. The disk is not attached before that.
	MetadataMade bool `json:"made,omitempty"`
	// Attachment is the number of the last attachment that was proposed, and Boot the boot in
	// which. An attached disk has this number: none is proposed while one is attached (S5).
	Attachment uint64 `json:"attach,omitempty"`
	Boot       string `json:"boot,omitempty"`
	// ConnectedAttachment is the attachment in which it connected last: writes that it missed
	// since then are in the bitmaps.
	ConnectedAttachment uint64 `json:"linked,omitempty"`
	// GivenAttachment is the attachment in which the kernel had the disk. FailedAttachment is that
	// in which the kernel detached it after an error: the disk may lack writes that no bitmap names, and
	// nothing on it counts until a full resync (S67). PeerWasUpToDate: the peer's disk was up to date
	// at that time. Remade is the attachment after which the metadata were made anew because of it.
	GivenAttachment  uint64 `json:"held,omitempty"`
	FailedAttachment uint64 `json:"disk_failed,omitempty"`
	PeerWasUpToDate  bool   `json:"peer_whole,omitempty"`
	RemadeAttachment uint64 `json:"remade,omitempty"`
	// SharedUUID is the generation that both replicas had when this host last saw both up to date. A
	// disk that is in another one, and left its peer's behind, went on without its peer.
	SharedUUID uint64 `json:"shared,omitempty"`
	// MayHaveWrites: it may have been primary since it was last connected to its peer. Then a
	// snapshot of what it has is taken before that is discarded: Kept (S9).
	MayHaveWrites bool `json:"wrote,omitempty"`
	CopyKept      bool `json:"kept,omitempty"`
	// CopyAsked: a kept copy of what it has was asked for. When it is written again, that copy is an older one: KeptCopies
	// is how many such there are of this attachment, so that each content has a copy of a name of its own (S48).
	CopyAsked  bool   `json:"copy_asked,omitempty"`
	KeptCopies uint64 `json:"copies,omitempty"`
	// PlainBytes is how large the image was before its conversion to a replica's began, in bytes: an undone conversion
	// makes it so again (S55). 0: it never was a plain volume's.
	PlainBytes int64 `json:"plain,omitempty"`
	// Reverting is the kept copy to which the device is being reverted, from before it is touched until its metadata were
	// made anew: meanwhile it is never attached. ContentReverted: it has the copy's content, and metadata of that time.
	Reverting       fsm.SnapshotID `json:"reverting,omitempty"`
	ContentReverted bool           `json:"reverted,omitempty"`
	// RevertedTo is the kept copy to which it was reverted, until it is attached (S43).
	RevertedTo fsm.SnapshotID `json:"reverted_to,omitempty"`
	// FreezeIsolated: without its peer and without controllers, its I/O is suspended, also by a process that has heard no
	// controller yet (S45).
	FreezeIsolated bool `json:"freeze_isolated,omitempty"`
	// Verified is when the last comparison with the peer began.
	Verified time.Time `json:"verified,omitzero"`
}

// BeginWrites notes that it may have writes from here on that its peer does not have, and that no copy has.
func (r *ReplicaRecord) BeginWrites() {
	r.MayHaveWrites, r.CopyKept = true, false
	if r.CopyAsked {
		r.CopyAsked, r.KeptCopies = false, r.KeptCopies+1
	}
}

// ClearDiskFailure forgets the failure: the disk counts with what it has.
func (r *ReplicaRecord) ClearDiskFailure() {
	r.FailedAttachment, r.PeerWasUpToDate, r.RemadeAttachment = 0, false, r.Attachment
}
