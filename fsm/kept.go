package fsm

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Kept says of a snapshot that it is what a replica had that lost (S9, S49): its host
// makes it of the device below before it discards that.
type Kept struct {
	Reason     string // why the replica lost
	Generation uint64 // in which it did; 0: not known
	Attach     uint64 // the attachment in which it had that
	// Superseded is when all replicas of the volume were first up to date since; zero: they
	// were not yet. Only then may it end by itself.
	Superseded time.Time
}

// mostKept is how many copies of one volume a host keeps, of as many losses.
const mostKept = 2

// applyKeepReplica takes a kept copy into the log before its host makes it, so that it has
// room and is known whatever becomes of the host. It is one for each loss: asked again, the
// answer is the same. Without room, or with as many copies as are kept, one that was
// superseded ends for it; where there is none, nothing is discarded, and the volume's
// condition says what to do.
func applyKeepReplica(s *State, m Meta, c *fsmpb.KeepReplica) (*fsmpb.Outcome, *Rejection) {
	v, n, rej := s.replicaOf(c, "keep")
	if rej != nil {
		return nil, rej
	}
	held, rej := s.keepable(v, n, c)
	switch {
	case rej != nil:
		return nil, rej
	case c.GetTrouble() != "":
		return s.notKept(v, n.Host, "what it has cannot be kept: "+c.GetTrouble()), nil
	case held != nil:
		return s.nowKept(v, n.Host, held.ID), nil
	}
	copies := s.keptOn(v.ID, n.Host)
	if i := slices.IndexFunc(copies, func(k *Snapshot) bool { return k.Kept.Generation == v.Replication.Generation }); i >= 0 {
		return s.nowKept(v, n.Host, copies[i].ID), nil
	}
	if wait := s.makeRoomToKeep(v, n, copies, c.GetFacts()); wait != "" {
		return s.notKept(v, n.Host, wait), nil
	}
	copied := keptCopy(v, n, SnapshotID(c.GetSnapshotId()), v.Replica(n.Host).Pool)
	copied.Phase, copied.Created = SnapshotCutting, m.Epoch
	copied.Kept = &Kept{Reason: "its peer went on without it", Generation: v.Replication.Generation, Attach: c.GetAttach()}
	s.putSnapshot(copied)
	return s.nowKept(v, n.Host, copied.ID), nil
}

// keepable refuses what is no loss of this replica. The snapshot is the copy that has the
// name already, nil when there is none.
func (s *State) keepable(v *Volume, n *Node, c *fsmpb.KeepReplica) (*Snapshot, *Rejection) {
	refused := func(reason Reason, why string) (*Snapshot, *Rejection) {
		return nil, Reject(reason, "keep what volume %s lost on node %s: %s", v.ID, n.ID, why)
	}
	id := SnapshotID(c.GetSnapshotId())
	switch held, known := s.Snapshot(id); {
	case !id.Valid() || c.GetAttach() == 0:
		return refused(Invalid, "it needs a snapshot id and an attachment")
	case !v.Leg(n.Host).Outdated:
		return refused(Precondition, "that replica is not outdated")
	case known && (held.Kept == nil || held.Source != v.ID || held.Host != n.Host):
		return refused(Incompatible, "the id "+string(id)+" belongs to another snapshot")
	case known && held.Phase == SnapshotDeleting:
		return refused(Busy, "an earlier copy is just being removed")
	case known:
		return held, nil
	}
	return nil, nil
}

// keptCopy is a copy of what a host has of a volume.
func keptCopy(v *Volume, n *Node, id SnapshotID, pool PoolID) Snapshot {
	size := v.Size
	if r := v.Replica(n.Host); r != nil && r.Size > 0 {
		size = r.Size
	}
	return Snapshot{
		ID: id, Source: v.ID, Node: n.ID, Host: n.Host, Pool: pool, Size: size,
		Format: v.Format.made().cloned(), Capabilities: v.Capabilities,
	}
}

// makeRoomToKeep is what the host waits for before it may keep another copy, empty for
// nothing. At most one copy ends for it, the oldest that was superseded.
func (s *State) makeRoomToKeep(v *Volume, n *Node, copies []*Snapshot, facts []*fsmpb.PoolFact) string {
	const remedy = "remove one with `holdfast volumes kept remove`"
	p := n.pool(v.Replica(n.Host).Pool)
	full := p == nil || s.unreserved(p) < v.Size || !s.roomy(p, facts)
	if !full && len(copies) < mostKept {
		return ""
	}
	i := slices.IndexFunc(copies, func(k *Snapshot) bool {
		return !k.Kept.Superseded.IsZero() && s.unsourced(Busy, "", string(k.ID)) == nil
	})
	if i >= 0 {
		s.endKept(copies[i])
	}
	switch {
	case !full && i >= 0:
		return ""
	case !full:
		return "what it has cannot be kept: its host keeps as many copies of the volume as may be: " + remedy
	case i >= 0 || s.endingKept(v.ID, n.Host):
		return "what it has is kept when an older copy is removed"
	}
	return "what it has cannot be kept: its pool has no room for that: make room there, or, where the host keeps copies, " + remedy
}

// nowKept answers with the copy. Nothing waits any more.
func (s *State) nowKept(v *Volume, host HostID, id SnapshotID) *fsmpb.Outcome {
	out := s.notKept(v, host, "")
	out.SnapshotId = string(id)
	return out
}

// notKept records why what a replica has is not kept; empty when it is.
func (s *State) notKept(v *Volume, host HostID, why string) *fsmpb.Outcome {
	if why = clip(why); v.Leg(host).NotKept != why {
		now := v.withReplication()
		now.Replication.leg(host).NotKept = why
		s.putVolume(now)
	}
	return &fsmpb.Outcome{VolumeId: string(v.ID)}
}

// snapshotKept: the copy is in the host's pool. One that the log does not know is taken
// into it, never removed; said again, it is no news. Of a volume that is being deleted it
// is an obligation at once.
func (s *State) snapshotKept(n *Node, o *fsmpb.Observation, f *fsmpb.SnapshotKept) {
	id := SnapshotID(o.GetSnapshotId())
	known, ok := s.Snapshot(id)
	var now Snapshot
	if ok {
		if known.Kept == nil || known.Host != n.Host || known.Phase != SnapshotCutting {
			return
		}
		now = *known
	} else {
		v, there := s.Volume(VolumeID(o.GetVolumeId()))
		if !there || v.Replication == nil || !id.Valid() || f.GetAttach() == 0 || n.pool(PoolID(f.GetPoolId())) == nil {
			return
		}
		now = keptCopy(v, n, id, PoolID(f.GetPoolId()))
		now.Created, now.Kept = s.epoch(), &Kept{Reason: "found on its host", Attach: f.GetAttach()}
	}
	now.Phase, now.Cut = SnapshotReady, timeOf(max(1, f.GetCutUnixNano()))
	v, there := s.Volume(now.Source)
	if there && v.whole() {
		now.Kept = now.Kept.superseded(s.cluster.Time)
	}
	if there && v.deleting() {
		now.Phase = SnapshotDeleting
	}
	s.putSnapshot(now)
}

// keeps tells whether the log has the copy as one that the host keeps.
func (s *State) keeps(n *Node, id SnapshotID) bool {
	held, ok := s.Snapshot(id)
	return ok && held.Kept != nil && held.Host == n.Host && held.Phase == SnapshotReady
}

// KeptCopies yields the copies that hosts keep of what replicas had that lost, in order of
// their volumes.
func (s *State) KeptCopies() iter.Seq[*Snapshot] {
	return func(yield func(*Snapshot) bool) {
		s.cuts.index.kept.Scan(func(p pair) bool {
			n, ok := s.Snapshot(SnapshotID(p.id))
			return !ok || yield(n)
		})
	}
}

// copiesOf yields those of one volume, in order of id.
func (s *State) copiesOf(id VolumeID) iter.Seq[*Snapshot] {
	return func(yield func(*Snapshot) bool) {
		s.cuts.index.kept.Ascend(pair{of: string(id)}, func(p pair) bool {
			n, ok := s.Snapshot(SnapshotID(p.id))
			return p.of == string(id) && (!ok || yield(n))
		})
	}
}

// MayEnd tells whether a kept copy may end by itself now: nothing that is under way needs it.
func (s *State) MayEnd(n *Snapshot) bool {
	return n.Phase == SnapshotReady && s.superseded(n) && s.unsourced(Busy, "", string(n.ID)) == nil
}

// keptOf are the copies that hosts keep of a volume, the oldest first, but for those that
// are being removed.
func (s *State) keptOf(id VolumeID) []*Snapshot {
	var all []*Snapshot
	for n := range s.copiesOf(id) {
		if n.Phase != SnapshotDeleting {
			all = append(all, n)
		}
	}
	slices.SortStableFunc(all, func(a, b *Snapshot) int { return cmp.Compare(a.Created.Index, b.Created.Index) })
	return all
}

// keptOn are those of one host.
func (s *State) keptOn(id VolumeID, host HostID) []*Snapshot {
	return slices.DeleteFunc(s.keptOf(id), func(n *Snapshot) bool { return n.Host != host })
}

// endingKept tells whether the host is asked to remove a copy of the volume.
func (s *State) endingKept(id VolumeID, host HostID) bool {
	for n := range s.copiesOf(id) {
		if n.Phase == SnapshotDeleting && n.Host == host {
			return true
		}
	}
	return false
}

// endKept makes the removal of copies obligations of their hosts. That of one that may
// not have been made yet is one, too.
func (s *State) endKept(copies ...*Snapshot) {
	for _, n := range copies {
		now := *n
		now.Phase = SnapshotDeleting
		s.putSnapshot(now)
	}
}

// supersedeKept: all replicas of the volume are up to date. What was not made until now is
// not needed, and what was may end by itself from here on.
func (s *State) supersedeKept(id VolumeID) {
	for _, n := range s.keptOf(id) {
		now := *n
		switch {
		case n.Phase == SnapshotCutting:
			now.Phase = SnapshotDeleting
		case n.Kept.Superseded.IsZero():
			now.Kept = n.Kept.superseded(s.cluster.Time)
		default:
			continue
		}
		s.putSnapshot(now)
	}
}

func (k *Kept) superseded(at time.Time) *Kept {
	now := *k
	now.Superseded = timeOf(max(1, nanosOf(at)))
	return &now
}

// superseded tells whether a kept copy may end by itself now: its volume has been whole
// since it was made, and is.
func (s *State) superseded(n *Snapshot) bool {
	if n.Kept == nil || n.Kept.Superseded.IsZero() {
		return false
	}
	v, ok := s.Volume(n.Source)
	return !ok || v.whole() || v.deleting()
}

// whole tells whether a replicated volume has all its replicas, each up to date.
func (v *Volume) whole() bool {
	r := v.Replication
	return r != nil && r.Born != 0 && len(r.Legs) >= int(r.Wanted) && !slices.ContainsFunc(r.Legs, func(l Leg) bool { return !l.UpToDate })
}

func (v *Volume) deleting() bool {
	_, deleting := v.Phase.(Deleting)
	return deleting
}

func (k *Kept) record() *fsmpb.KeptRecord {
	if k == nil {
		return nil
	}
	return &fsmpb.KeptRecord{Reason: k.Reason, Generation: k.Generation, Attach: k.Attach, Superseded: nanosOf(k.Superseded)}
}

func keptFrom(r *fsmpb.KeptRecord) *Kept {
	if r == nil {
		return nil
	}
	return &Kept{Reason: r.GetReason(), Generation: r.GetGeneration(), Attach: r.GetAttach(), Superseded: timeOf(r.GetSuperseded())}
}
