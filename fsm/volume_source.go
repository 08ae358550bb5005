package fsm

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// origin is what a volume or a snapshot is made from, and where that is kept.
type origin struct {
	description  string // for people
	size         int64
	format       Format
	capabilities []Capability
	crypt        *Crypt
	node         *Node
	pool         PoolID
}

// requestedSource reads a content source: exactly one id, or none at all.
func requestedSource(c *fsmpb.Source) (Source, *Rejection) {
	from := SourceFrom(c)
	if c != nil && (from.Snapshot == "") == (from.Volume == "") {
		return Source{}, Reject(Invalid, "a content source is one snapshot or one volume")
	}
	return from, nil
}

// originOf finds a source that a volume can be made from now.
func (s *State) originOf(from Source) (origin, *Rejection) {
	if from.Snapshot == "" {
		return s.volumeOrigin(string(from.Volume))
	}
	n, ok := s.Snapshot(from.Snapshot)
	if !ok || n.Phase == SnapshotDeleting {
		return origin{}, Reject(NotFound, "snapshot %s is not known", clip(string(from.Snapshot)))
	}
	switch {
	case n.Phase == SnapshotTaking:
		return origin{}, Reject(Busy, "snapshot %s is still being cut", n.ID)
	case n.Phase == SnapshotFailed:
		return origin{}, Reject(Precondition, "snapshot %s failed: %s", n.ID, n.Error)
	case n.Missing:
		return origin{}, Reject(Precondition, "snapshot %s is missing on node %s", n.ID, n.Node)
	}
	host, rej := s.askableHost("snapshot "+string(n.ID), n.Node, n.Host)
	return origin{description: "snapshot " + string(n.ID), size: n.Size, format: n.Format, capabilities: n.Capabilities, crypt: n.Crypt, node: host, pool: n.Pool}, rej
}

// volumeOrigin finds a volume of which a snapshot or clone can be made now: it is Ready, its
// content is complete, its size is not changing, and its host is reachable.
func (s *State) volumeOrigin(id string) (origin, *Rejection) {
	v, rej := s.readyVolume(id)
	if rej != nil {
		return origin{}, rej
	}
	r := s.sourceReplica(v)
	switch {
	case v.reclaim() != nil:
		return origin{}, v.reclaimFirst("copy")
	case v.Format.Phase == fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING || v.Crypt.isBeingMade():
		return origin{}, Reject(Busy, "volume %s is just being formatted", v.ID)
	case v.isExpanding():
		return origin{}, Reject(Busy, "volume %s is being expanded", v.ID)
	case r == nil:
		return origin{}, Reject(Precondition, "volume %s has no replica that is up to date now", v.ID)
	case r.State != ReplicaPresent:
		return origin{}, Reject(Precondition, "the device of volume %s is missing on node %s", v.ID, r.Node)
	}
	host, rej := s.askableHost("volume "+string(v.ID), r.Node, r.Host)
	return origin{description: "volume " + string(v.ID), size: v.Size, format: v.Format, capabilities: v.Capabilities, crypt: v.Crypt, node: host, pool: r.Pool}, rej
}

// askableHost is the host that keeps something, when it is reachable.
func (s *State) askableHost(subject string, node NodeID, host HostID) (*Node, *Rejection) {
	n, ok := s.Node(node)
	switch {
	case !ok || n.Host != host || n.State == NodeLost:
		return nil, Reject(Precondition, "%s is kept by host %s of node %s, which is gone", subject, host, node)
	case n.Incarnation != s.cluster.Incarnation:
		return nil, Reject(Precondition, "%s is kept by node %s, which is in adoption mode until an operator adopts it", subject, node)
	case n.IsFenced():
		return nil, Reject(Unreachable, "%s is kept by node %s, which is fenced", subject, node)
	case n.State == NodeUnreachable:
		return nil, Reject(Unreachable, "%s is kept by node %s, which cannot be reached now", subject, node)
	}
	return n, nil
}

// placeFromSource gives a volume its source's content, at least its size, and its pool:
// a host makes what is in its own pool only.
func (s *State) placeFromSource(v *Volume, c *fsmpb.CreateVolume, w *placementRequest) (Replica, *Rejection) {
	from, rej := s.originOf(v.Source)
	if rej != nil {
		return Replica{}, rej
	}
	if rej := from.checkCapabilities(v.Capabilities); rej != nil {
		return Replica{}, rej
	}
	if rej := from.sameEncryption(v); rej != nil {
		return Replica{}, rej
	}
	switch required, limit := c.GetRequiredBytes(), c.GetLimitBytes(); {
	case required != 0 && v.Size < from.size:
		return Replica{}, Reject(OutOfRange, "%d bytes are required: %s has %d, and no volume of it is smaller", required, from.description, from.size)
	case limit != 0 && limit < from.size:
		return Replica{}, Reject(OutOfRange, "the limit is %d bytes: %s has %d, and no volume of it is smaller", limit, from.description, from.size)
	default:
		if v.Size, rej = SizeFor(max(required, from.size), limit, v.Capabilities); rej != nil {
			return Replica{}, rej
		}
	}
	v.Format, v.Crypt = from.format.cloned(), from.crypt.cloned().withDiscards(v.Crypt.discards())
	if s.level2() {
		w.size = v.Crypt.deviceBytes(v.Size)
		return s.placeWithSource(s.originsOf(v.Source, &from), w)
	}
	if !from.node.matchesAnyTerm(v.Requisite) {
		return Replica{}, Reject(NoCapacity, "%s is kept by node %s, which is outside the topology that is required", from.description, from.node.ID)
	}
	return s.replicaInOriginPool(&from, v.Size, c.GetFacts())
}

// replicaInOriginPool is a replica in the origin's pool, when that has room (S25).
func (s *State) replicaInOriginPool(from *origin, size int64, facts []*fsmpb.PoolFact) (Replica, *Rejection) {
	p := from.node.pool(from.pool)
	if p == nil || s.unreserved(p) < size || !s.keepsMinFree(p, facts) {
		return Replica{}, Reject(NoCapacity, "pool %s of node %s, where %s is kept, has no room for %d bytes", from.pool, from.node.ID, from.description, size)
	}
	return Replica{Node: from.node.ID, Host: from.node.Host, Pool: p.ID, State: ReplicaPlanned}, nil
}

// checkCapabilities refuses capabilities that content of the origin's format cannot have: it is
// never formatted again (S15).
func (o *origin) checkCapabilities(all []Capability) *Rejection {
	for _, c := range all {
		switch o.format.Phase {
		case fsmpb.FormatPhase_FORMAT_PHASE_RAW:
			if !c.Block {
				return Reject(Invalid, "%s was given out raw: a volume of it cannot be used as %s", o.description, c)
			}
		case fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED:
			if c.Block || c.FSType != o.format.FSType {
				return Reject(Invalid, "%s has a filesystem of type %s: a volume of it cannot be used as %s", o.description, o.format.FSType, c)
			}
		}
	}
	return nil
}

// cloned is the format of a copy. A filesystem has its source's identity until the
// first stage gives it its own.
func (f Format) cloned() Format {
	f.Epoch = Epoch{}
	f.Cloned = f.Phase == fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED
	return f
}

// withoutFormatting is the format without a mkfs under way: what a copy has of that is not a
// filesystem yet, and nobody completes it there.
func (f Format) withoutFormatting() Format {
	if f.Phase == fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING {
		return Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED}
	}
	return f
}

// defaultFSTypeFor is what a mount capability without a filesystem means for a volume
// of this name and source: that of the volume that is there already, or of the source.
func (s *State) defaultFSTypeFor(site Site, name string, from Source) string {
	if from.IsZero() {
		return DefaultFSType
	}
	if existing, ok := s.VolumeByName(site, name); ok && !existing.isFailed() {
		return cmp.Or(existing.Format.FSType, fsTypeOf(existing.Capabilities), DefaultFSType)
	}
	if n, ok := s.Snapshot(from.Snapshot); ok {
		return cmp.Or(n.Format.FSType, fsTypeOf(n.Capabilities), DefaultFSType)
	}
	if v, ok := s.Volume(from.Volume); ok {
		return cmp.Or(v.Format.FSType, fsTypeOf(v.Capabilities), DefaultFSType)
	}
	return DefaultFSType
}

// fsTypeOf is the filesystem of capabilities, empty when all are raw.
func fsTypeOf(all []Capability) string {
	if i := slices.IndexFunc(all, func(c Capability) bool { return !c.Block }); i >= 0 {
		return all[i].FSType
	}
	return ""
}

// checkNotSource refuses to take away what is being copied from.
func (s *State) checkNotSource(reason Reason, what, id string) *Rejection {
	if volume := s.volumeCreatingFrom(id); volume != "" {
		return Reject(reason, "%s %s: volume %s is being made from it", what, id, volume)
	}
	if snapshot := s.snapshotBeingTaken(id); snapshot != "" {
		return Reject(reason, "%s %s: snapshot %s of it is being cut", what, id, snapshot)
	}
	if n, ok := s.Snapshot(SnapshotID(id)); ok && n.KeptCopy != nil {
		if v, exists := s.Volume(n.Source); exists && v.isReverting() && v.Replication.Revert.Snapshot == n.ID {
			return Reject(reason, "%s %s: a replica of volume %s goes back to it", what, id, v.ID)
		}
	}
	return nil
}

// copyMadeFrom is the volume or the snapshot that the node makes from its replica of a volume
// now, empty when there is none. It needs that replica until then (S116).
func (s *State) copyMadeFrom(id VolumeID, node NodeID) string {
	volume := firstRelated(s.snapshots.index.creatingFrom, string(id), func(created string) bool {
		v, ok := s.Volume(VolumeID(created))
		return ok && v.isCreating() && v.Replicas[0].Node == node
	})
	if volume != "" {
		return "volume " + volume
	}
	snapshot := firstRelated(s.snapshots.index.taking, string(id), func(taken string) bool {
		n, ok := s.Snapshot(SnapshotID(taken))
		return ok && n.Phase == SnapshotTaking && n.Node == node
	})
	if snapshot != "" {
		return "snapshot " + snapshot
	}
	return ""
}
