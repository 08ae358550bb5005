package fsm

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// A volume is known to callers from when its creation was answered until it is deleted. Only
// then is there anything to describe, to list, to expand or to modify.

// KnownVolume is the volume that was returned to a caller; NotFound: one that is being created
// or deleted, one that failed, or none.
func (s *State) KnownVolume(id VolumeID) (*Volume, *Rejection) {
	v, ok := s.Volume(id)
	if !ok || !v.isKnown() {
		return nil, UnknownVolume(id)
	}
	return v, nil
}

// KnownVolumes yields the volumes that were returned to callers, with an id above after, in order.
func (s *State) KnownVolumes(after VolumeID) iter.Seq[*Volume] {
	return func(yield func(*Volume) bool) {
		for v := range s.Volumes(after) {
			if v.isKnown() && !yield(v) {
				return
			}
		}
	}
}

func (v *Volume) isKnown() bool {
	_, ready := v.Phase.(Ready)
	return ready
}

// HasFilesystem tells whether there is a filesystem to expand with the volume: as used with the
// capability, or, where that is nil, with any that the volume was created with.
func (v *Volume) HasFilesystem(used *fsmpb.Capability) bool {
	if used != nil {
		return !used.GetBlock()
	}
	return slices.ContainsFunc(v.Capabilities, func(c Capability) bool { return !c.Block })
}

// CheckSupports is Precondition where the volume cannot be used so.
func (v *Volume) CheckSupports(c Capability) *Rejection {
	if !v.Supports(c) {
		return Reject(Precondition, "the volume was not created for %s", c)
	}
	return nil
}

// CheckReplicatedAs is Precondition where the volume has another number of replicas or another
// protocol; a zero value describes nothing.
func (v *Volume) CheckReplicatedAs(replicas uint32, protocol fsmpb.Protocol) *Rejection {
	own := cmp.Or(v.Replication, &Replication{ReplicaCount: 1})
	switch {
	case replicas != 0 && replicas != own.ReplicaCount:
		return Reject(Precondition, "the volume was created with %d replicas, not %d", own.ReplicaCount, replicas)
	case protocol != fsmpb.Protocol_PROTOCOL_UNKNOWN && protocol != own.Protocol:
		return Reject(Precondition, "the volume was created with another protocol than %s", protocolName(protocol))
	}
	return nil
}

// protocolName is A or C, as parameters name it.
func protocolName(p fsmpb.Protocol) string { return strings.TrimPrefix(p.String(), "PROTOCOL_") }
