package records

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
)

// record is what the host keeps of one volume. It is synced before what it
// announces is done. It can refuse and take down, never permit (S2).
type VolumeRecord struct {
	Volume fsm.VolumeID `json:"volume"`
	Pool   fsm.PoolID   `json:"pool"`
	// Epoch is the highest publication that the host acted under; lower ones are refused.
	Epoch fsm.Epoch `json:"epoch"`
	// Floor is the log index of the last grant; wishes from before it are not acted on (S14).
	Floor fsm.Epoch `json:"floor"`
	// SequenceLimit bounds the numbers that were given to records so far (S16).
	SequenceLimit uint64 `json:"sequence_limit"`
	// Formatting is the identity of the filesystem that this host began to make: its
	// unfinished pieces on the device are its own (S15).
	Formatting string `json:"formatting,omitempty"`
	// Staging is set from before the device is given out until nothing of it is up.
	Staging *StagingRecord `json:"staging,omitempty"`
	Targets []TargetRecord `json:"targets,omitempty"`
	// PendingTeardowns is the outbox: what was taken down and the log has not heard (S16).
	PendingTeardowns []PendingTeardown `json:"owed,omitempty"`
	// Size is what the image had when it was given out or grown last, in bytes: one
	// that is smaller lost something, and is never grown over.
	Size int64 `json:"size,omitempty"`
	// FilesystemFor is the size of the device, in bytes, to which the filesystem was made or grown.
	FilesystemFor int64 `json:"grown_to,omitempty"`
	// MayBeLimited is set before limits are put in force, until they are taken off the device.
	MayBeLimited bool `json:"limited,omitempty"`
	// MayBeTorn is set while the image is made from a volume: one that is there then may
	// be torn, if the source's freeze did not hold (S19). It was never reported.
	MayBeTorn bool `json:"copying,omitempty"`
	// Replica is set for a replicated volume, from before its device below is opened.
	Replica *ReplicaRecord `json:"replica,omitempty"`
	// ReportedCondition is the abnormal condition that the log was told last, empty when none.
	ReportedCondition string `json:"ailing,omitempty"`
}

// staging is where and how the host brings the volume up.
type StagingRecord struct {
	Epoch fsm.Epoch `json:"epoch"`
	Path  string    `json:"path"`
	Block bool      `json:"block"`
}

// target is where the host binds the volume.
type TargetRecord struct {
	Path     string `json:"path"`
	ReadOnly bool   `json:"read_only"`
	// MountGroup is the group id that everything on the filesystem was given to for it.
	MountGroup string `json:"group,omitempty"`
}

// PendingTeardown is one record of a tear-down: of a target, or of everything when Target is empty.
type PendingTeardown struct {
	Sequence uint64    `json:"sequence"`
	Epoch    fsm.Epoch `json:"epoch"`
	Target   string    `json:"target,omitempty"`
}

// Empty tells whether nothing but counters is in the record.
func (r *VolumeRecord) Empty() bool {
	return r.Staging == nil && len(r.Targets) == 0 && len(r.PendingTeardowns) == 0 && r.Replica == nil
}

// owes tells whether the outbox has a record of it already.
func (r *VolumeRecord) HasPendingTeardown(o PendingTeardown) bool {
	return slices.ContainsFunc(r.PendingTeardowns, func(teardown PendingTeardown) bool { return teardown.Target == o.Target && teardown.Epoch == o.Epoch })
}

func (r *VolumeRecord) Target(path string) *TargetRecord {
	for i := range r.Targets {
		if r.Targets[i].Path == path {
			return &r.Targets[i]
		}
	}
	return nil
}

func (r *VolumeRecord) WithoutTarget(path string) []TargetRecord {
	return slices.DeleteFunc(slices.Clone(r.Targets), func(t TargetRecord) bool { return t.Path == path })
}
