package records

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
)

// VolumeRecord is what the host records of one volume. It is synced before what it announces
// is done. It can make the host refuse and take down; it never permits anything (S2).
type VolumeRecord struct {
	Volume fsm.VolumeID `json:"volume"`
	Pool   fsm.PoolID   `json:"pool"`
	// Epoch is that of the newest publication that the host acted under; lower ones are refused.
	Epoch fsm.Epoch `json:"epoch"`
	// Floor is the log index of the last grant; desired state from before it is not acted on (S14).
	Floor fsm.Epoch `json:"floor"`
	// SequenceLimit is the highest sequence number that may have been issued for reports (S16).
	SequenceLimit uint64 `json:"sequence_limit"`
	// Formatting is the UUID of the filesystem that this host began to make: unfinished pieces
	// of it on the device are this host's own (S15).
	Formatting string `json:"formatting,omitempty"`
	// FormattingHeader is the UUID of the LUKS header that this host began to make (S15).
	FormattingHeader string `json:"formatting_header,omitempty"`
	// Encrypted is set before the device is handed out: what is mounted is the mapping above it.
	Encrypted bool `json:"encrypted,omitempty"`
	// HeaderMissing: the log knows of a LUKS header that was not on the device when it was looked for (S62).
	HeaderMissing bool `json:"header_missing,omitempty"`
	// HeaderGeneration is the key generation that the log had when the host's copy of the LUKS header was taken:
	// what it had under an earlier one has a key that was replaced since (S65).
	HeaderGeneration uint64 `json:"header_generation,omitempty"`
	// HeaderWiped is set before the LUKS header is overwritten, for removal: from then on the image counts as unfinished.
	HeaderWiped bool `json:"header_wiped,omitempty"`
	// Staging is set before the device is handed out, and stays until nothing of it is up.
	Staging *StagingRecord `json:"staging,omitempty"`
	Targets []TargetRecord `json:"targets,omitempty"`
	// PendingTeardowns is the outbox: what was taken down and is not acknowledged (S16).
	PendingTeardowns []PendingTeardown `json:"owed,omitempty"`
	// Size is the image's in bytes when it was last handed out or expanded. An image that is
	// smaller than that has lost data, and is never expanded.
	Size int64 `json:"size,omitempty"`
	// FilesystemFor is the size of the device, in bytes, to which the filesystem was made or expanded.
	FilesystemFor int64 `json:"grown_to,omitempty"`
	// MayBeLimited is set before limits are put in force, and stays until they are removed from the device.
	MayBeLimited bool `json:"limited,omitempty"`
	// MayBeTorn is set while the image is copied from a volume. An image that is there then may
	// be torn, if the source's freeze did not hold (S19). It was never reported.
	MayBeTorn bool `json:"copying,omitempty"`
	// Replica is set for a replicated volume, before its backing device is activated.
	Replica *ReplicaRecord `json:"replica,omitempty"`
	// ImportDRBD is set while, and after, the metadata of a DRBD resource of others on the image are replaced. It stays as
	// long as the record, and does not keep that: the log may be restored to the middle of the import, and what was
	// written since is not overwritten then (S1).
	ImportDRBD *ImportDRBDRecord `json:"import_drbd,omitempty"`
	// ReportedCondition is the abnormal condition that was reported last, empty when none.
	ReportedCondition string `json:"ailing,omitempty"`
}

// ImportDRBDRecord is how far the import of a replica of a DRBD resource of others is on this host.
type ImportDRBDRecord struct {
	// Verified: its metadata were what they have to be when nobody could open it by its former name any more.
	Verified bool `json:"verified,omitempty"`
	// Saved: a dump of the metadata is in a file, so they may be overwritten. Replaced: they were.
	Saved    bool `json:"saved,omitempty"`
	Replaced bool `json:"replaced,omitempty"`
}

// StagingRecord is where and how the host stages the volume.
type StagingRecord struct {
	Epoch fsm.Epoch `json:"epoch"`
	Path  string    `json:"path"`
	Block bool      `json:"block"`
}

// TargetRecord is a target of the volume.
type TargetRecord struct {
	Path     string `json:"path"`
	ReadOnly bool   `json:"read_only"`
	// MountGroup is the group id that everything on the filesystem was given to for this target.
	MountGroup string `json:"group,omitempty"`
}

// PendingTeardown is one record of a teardown: of a target, or of the whole volume when Target is empty.
type PendingTeardown struct {
	Sequence uint64    `json:"sequence"`
	Epoch    fsm.Epoch `json:"epoch"`
	Target   string    `json:"target,omitempty"`
}

// Empty reports whether nothing but counters is in the record.
func (r *VolumeRecord) Empty() bool {
	return r.Staging == nil && len(r.Targets) == 0 && len(r.PendingTeardowns) == 0 && r.Replica == nil
}

// HasPendingTeardown reports whether the outbox has a record of this teardown already.
func (r *VolumeRecord) HasPendingTeardown(o PendingTeardown) bool {
	return slices.ContainsFunc(r.PendingTeardowns, func(teardown PendingTeardown) bool { return teardown.Target == o.Target && teardown.Epoch == o.Epoch })
}

// Target is the record of the target at the path, nil when there is none. It may be changed in place.
func (r *VolumeRecord) Target(path string) *TargetRecord {
	for i := range r.Targets {
		if r.Targets[i].Path == path {
			return &r.Targets[i]
		}
	}
	return nil
}

// WithoutTarget returns a copy of the targets without the one at the path.
func (r *VolumeRecord) WithoutTarget(path string) []TargetRecord {
	return slices.DeleteFunc(slices.Clone(r.Targets), func(t TargetRecord) bool { return t.Path == path })
}
