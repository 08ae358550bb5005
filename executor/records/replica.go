package records

import (
	"time"
)

// ReplicaRecord is what the host keeps of its replica of a replicated volume.
type ReplicaRecord struct {
	Minor uint32 `json:"minor"`
	// MetadataMade: the metadata were made. Only then is the disk attached.
	MetadataMade bool `json:"made,omitempty"`
	// Attach is the number of the last attachment that was proposed, and Boot when: an
	// attached disk has this number, since none is proposed while one is attached (S5).
	Attachment uint64 `json:"attach,omitempty"`
	Boot       string `json:"boot,omitempty"`
	// ConnectedAttachment is the attachment under which it connected last: what it misses since then is
	// in the bitmaps.
	ConnectedAttachment uint64 `json:"linked,omitempty"`
	// Held is the attachment that the kernel was given the disk in. FailedAttachment: it gave that
	// up by itself, so the disk may miss what no bitmap names; nothing of it counts until it
	// was copied wholly (S67). PeerWasUpToDate: the peer was whole then. Remade is the attachment
	// after which the metadata were made anew for that.
	GivenAttachment  uint64 `json:"held,omitempty"`
	FailedAttachment uint64 `json:"disk_failed,omitempty"`
	PeerWasUpToDate  bool   `json:"peer_whole,omitempty"`
	RemadeAttachment uint64 `json:"remade,omitempty"`
	// MayHaveWrites: it may have been primary since it was last seen together with its peer.
	// Then what it has is kept in a snapshot before it is discarded: Kept (S9).
	MayHaveWrites bool `json:"wrote,omitempty"`
	CopyKept      bool `json:"kept,omitempty"`
	// Verified is when the last comparison with the peer began.
	Verified time.Time `json:"verified,omitzero"`
}

// ClearDiskFailure takes the disk for what it is.
func (r *ReplicaRecord) ClearDiskFailure() {
	r.FailedAttachment, r.PeerWasUpToDate, r.RemadeAttachment = 0, false, r.Attachment
}
