package plan

import (
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ObservedSource is what was observed of a volume that is to be snapshotted or cloned.
type ObservedSource struct {
	ObservedVolume
	MountPath      string // where its filesystem is mounted; empty: nowhere
	RawWritable    bool   // its blocks are handed to a workload for writing
	SharesBlocks   bool   // the pool takes snapshots without copying
	CopyFitsFreeze bool   // a copy of what is allocated fits into the longest freeze
	CanFreeze      bool   // the host can freeze
	ForGroup       bool   // it is to be held frozen for a group snapshot
	// Generation of a replicated volume: the one known when it was observed.
	Generation uint64
}

// Refusal is why no snapshot of the volume can be taken as it is (S19), nil when one can. It
// is pure. The replica that the log chose may lack writes by now, as its disk failed or its host lost
// its power. Of a raw volume that is open for writing a single snapshot can be taken when the
// pool shares blocks: it is crash-consistent. For a group snapshot such a volume cannot be frozen.
func (s *ObservedSource) Refusal(id fsm.VolumeID) *fsm.Rejection {
	switch {
	case s.Absent:
		return fsm.Reject(fsm.Unreachable, "the pool of volume %s is absent", id)
	case !s.Exists:
		return fsm.Reject(fsm.Precondition, "the device of volume %s is missing", id)
	case s.RawWritable && s.ForGroup:
		return fsm.Reject(fsm.Precondition, "volume %s is published raw for writing: it cannot be frozen for a group snapshot", id)
	case s.RawWritable && !s.SharesBlocks:
		return fsm.Reject(fsm.Precondition, "volume %s is published raw for writing, and its pool copies for a snapshot: unpublish it first, or keep it in a pool that shares blocks (xfs with reflink=1, or LVM thin)", id)
	case s.PeerWrites() && !s.SharesBlocks:
		return fsm.Reject(fsm.Precondition, "volume %s is used on the host of its other replica, or is synchronised from there, and its pool copies for a snapshot: the snapshot is taken on that host, or when the volume is unpublished", id)
	case s.Replica != nil && !(s.Replica.InKernel && s.Replica.Disk == DiskUpToDate):
		return fsm.Reject(fsm.Busy, "the replica of volume %s on this host is not up to date now", id)
	case s.MountPath != "" && !s.CanFreeze:
		return fsm.Reject(fsm.Precondition, "volume %s is staged, and this host cannot freeze filesystems", id)
	case s.MountPath != "" && !s.SharesBlocks && !s.CopyFitsFreeze:
		return fsm.Reject(fsm.Precondition, "volume %s is staged and holds more than its pool can copy during the longest freeze: unstage it first, or keep it in a pool that shares blocks (xfs with reflink=1, or LVM thin)", id)
	}
	return nil
}

// PeerWrites reports whether the other replica's host writes to the volume.
func (s *ObservedSource) PeerWrites() bool {
	r := s.Replica
	return r != nil && r.InKernel && (r.PeerRole == "Primary" || r.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET)
}

// MountedAt is a path where the volume's filesystem is mounted; any of them can be used
// to freeze it.
func MountedAt(have *ObservedVolume, staged *records.StagingRecord) string {
	switch {
	case staged != nil && staged.Block:
		return ""
	case have.Staged && staged != nil:
		return staged.Path
	case len(have.BoundTargets) > 0:
		return have.BoundTargets[0]
	case len(have.ForeignMounts) > 0:
		return have.ForeignMounts[0]
	case have.Staged:
		return have.StagingPath
	}
	return ""
}
