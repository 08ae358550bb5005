package fsm

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// KeptCopy marks a snapshot as the content of an outdated replica (S9, S49): its host takes it
// of the backing device before it discards that content.
type KeptCopy struct {
	Reason     string // why the replica was outdated
	Generation uint64 // in which it was; 0: not known
	Attachment uint64 // the attachment in which it had that
	// Superseded is when all replicas of the volume were first up to date after it was taken;
	// zero: they were not yet. Only a superseded copy may be removed without a request.
	Superseded time.Time
	// BeforeSync: it is what a consistent replica had before it became the target of a resynchronisation. It is
	// removed when both replicas are up to date (S50).
	BeforeSync bool
	// Partial: it is not known to be a whole content, and no replica goes back to it (S43).
	Partial bool
	// Adopted: it is of a log that was lost. What it is older than is not known: it is never removed without a request, and
	// no replica goes back to it (S1).
	Adopted bool
}

// maxKeptCopies is how many kept copies of one volume a host has at most.
const maxKeptCopies = 2

// applyKeepReplica records a kept copy before its host takes it, so that room is reserved and
// the copy is known whatever happens to the host. Each time that a replica is outdated has one
// copy: repeated, the answer is the same. Without room, or with maxKeptCopies already, a
// superseded copy is removed for it; where there is none, the replica is not discarded, and
// the volume's condition says what to do.
func applyKeepReplica(s *State, m Meta, c *fsmpb.KeepReplica) (*fsmpb.Outcome, *Rejection) {
	v, n, rej := s.replicaForCommand(c, "keep")
	if rej != nil {
		return nil, rej
	}
	existing, rej := s.checkKeepable(v, n, c)
	switch {
	case rej != nil:
		return nil, rej
	case c.GetBeforeSync() && c.GetTrouble() != "" && !v.ActiveReplica(n.Host).KeepDue:
		return &fsmpb.Outcome{VolumeId: string(v.ID)}, nil // it was said, or is being overwritten
	case c.GetBeforeSync() && existing == nil && !v.ActiveReplica(n.Host).KeepDue:
		return nil, Reject(Precondition, "keep what volume %s has on node %s before it is synchronised: that is not due", v.ID, n.ID)
	case c.GetTrouble() != "" && c.GetBeforeSync():
		return s.answerNotKeptBeforeSync(v, n.Host, c.GetTrouble()), nil
	case c.GetTrouble() != "":
		return s.answerNotKept(v, n.Host, "what it has cannot be kept: "+c.GetTrouble()), nil
	case c.GetBeforeSync() && s.copyOfTheCut(v, n.Host) != nil: // the others of its group are of that instant, or before it
		return s.answerKept(v, n.Host, s.copyOfTheCut(v, n.Host).ID), nil
	case existing != nil && c.GetBeforeSync() && !existing.KeptCopy.Superseded.IsZero():
		return s.answerNotKeptBeforeSync(v, n.Host, "an older copy of this attachment is still in use"), nil
	case existing != nil:
		return s.answerKept(v, n.Host, existing.ID), nil
	}
	copies := s.liveKeptCopiesOn(v.ID, n.Host)
	if i := slices.IndexFunc(copies, func(k *Snapshot) bool { return k.KeptCopy.Generation == v.Replication.Generation }); i >= 0 {
		return s.answerKept(v, n.Host, copies[i].ID), nil
	}
	if wait := s.makeRoomToKeep(v, n, copies, c.GetFacts()); wait != "" {
		if c.GetBeforeSync() {
			return s.answerNotKeptBeforeSync(v, n.Host, wait), nil
		}
		return s.answerNotKept(v, n.Host, wait), nil
	}
	copied := newKeptCopy(v, n, SnapshotID(c.GetSnapshotId()), v.Replica(n.Host).Pool)
	copied.Phase, copied.Created = SnapshotTaking, m.Epoch
	copied.KeptCopy = &KeptCopy{Reason: "its peer went on without it", Generation: v.Replication.Generation, Attachment: c.GetAttach(), BeforeSync: c.GetBeforeSync(), Partial: v.RelationMember != nil && !v.isWhole(n.Host)}
	s.putSnapshot(copied)
	return s.answerKept(v, n.Host, copied.ID), nil
}

// isWhole tells whether the host's replica has a whole content, as far as recorded.
func (v *Volume) isWhole(host HostID) bool {
	l, m := v.ActiveReplica(host), v.RelationMember
	givenUp := m != nil && m.ApartHost == host // its disk did not fail: it is copied wholly, as its peer went back
	return l != nil && !l.Partial && (l.DiskFailed == 0 || givenUp)
}

// checkKeepable refuses when this replica is not outdated. The snapshot is the copy that has the
// id already, nil when there is none.
func (s *State) checkKeepable(v *Volume, n *Node, c *fsmpb.KeepReplica) (*Snapshot, *Rejection) {
	refused := func(reason Reason, why string) (*Snapshot, *Rejection) {
		return nil, Reject(reason, "keep what volume %s lost on node %s: %s", v.ID, n.ID, why)
	}
	id := SnapshotID(c.GetSnapshotId())
	switch existing, known := s.Snapshot(id); {
	case !id.Valid() || c.GetAttach() == 0:
		return refused(Invalid, "it needs a snapshot id and an attachment")
	case !v.ActiveReplica(n.Host).Outdated:
		return refused(Precondition, "that replica is not outdated")
	case known && (existing.KeptCopy == nil || existing.Source != v.ID || existing.Host != n.Host):
		return refused(Incompatible, "the id "+string(id)+" belongs to another snapshot")
	case known && existing.Phase == SnapshotDeleting:
		return refused(Busy, "an earlier copy is just being removed")
	case known:
		return existing, nil
	}
	return nil, nil
}

// keptCrypt is the encryption of what a host has of the volume.
func (v *Volume) keptCrypt(host HostID) *Crypt {
	crypt, r := v.Crypt.cloned(), v.Replica(host)
	if crypt == nil || r == nil {
		return crypt
	}
	if own := v.keyGenerationOn(r); own != crypt.KeyGeneration {
		crypt.KeyGeneration, crypt.Rotation = own, nil // the rotation that is under way did not reach it
	}
	return crypt
}

// keyGenerationOn is that of the LUKS header on a replica: the volume's, or that of when the replica was outdated.
func (v *Volume) keyGenerationOn(r *Replica) uint64 {
	if v.Crypt != nil && r.ReplicaSync != nil && r.Outdated {
		return r.KeyGeneration
	}
	return v.Crypt.keyGeneration()
}

// newKeptCopy is a copy of what a host has of a volume. It belongs to the host's site: only there can a
// volume be made of it.
func newKeptCopy(v *Volume, n *Node, id SnapshotID, pool PoolID) Snapshot {
	size := v.Size
	if r := v.Replica(n.Host); r != nil && r.Size > 0 {
		size = r.Size
	}
	return Snapshot{
		ID: id, Source: v.ID, Node: n.ID, Host: n.Host, Pool: pool, Size: size, Origin: n.site(),
		Format: v.Format.withoutFormatting().cloned(), Capabilities: v.Capabilities, Crypt: v.keptCrypt(n.Host),
	}
}

// makeRoomToKeep says what the host waits for before it may keep another copy, empty for
// nothing. At most one copy is removed for it, the oldest superseded one.
func (s *State) makeRoomToKeep(v *Volume, n *Node, copies []*Snapshot, facts []*fsmpb.PoolFact) string {
	const remedy = "remove one with `holdfast volumes kept remove`"
	p := n.pool(v.Replica(n.Host).Pool)
	full := p == nil || s.unreserved(p) < v.Crypt.deviceBytes(v.Size) || !s.keepsMinFree(p, facts)
	if !full && len(copies) < maxKeptCopies {
		return ""
	}
	i := slices.IndexFunc(copies, func(k *Snapshot) bool {
		return !k.KeptCopy.Superseded.IsZero() && s.checkNotSource(Busy, "", string(k.ID)) == nil
	})
	if i >= 0 {
		s.removeKeptCopies(copies[i])
	}
	switch {
	case !full && i >= 0:
		return ""
	case !full:
		return "what it has cannot be kept: its host keeps as many copies of the volume as may be: " + remedy
	case i >= 0 || s.isRemovingKeptCopy(v.ID, n.Host):
		return "what it has is kept when an older copy is removed"
	}
	return "what it has cannot be kept: its pool has no room for that: make room there, or, where the host keeps copies, " + remedy
}

// answerKept answers with the copy, and clears the recorded reason for waiting. With a copy that is there nothing else is
// due before the replica is synchronised (S50).
func (s *State) answerKept(v *Volume, host HostID, id SnapshotID) *fsmpb.Outcome {
	if n, ok := s.Snapshot(id); ok && n.Phase == SnapshotReady {
		if kept, due := v.withKept(host); due {
			s.putVolume(kept)
			v = &kept
		}
	}
	out := s.answerNotKept(v, host, "")
	out.SnapshotId = string(id)
	return out
}

// answerNotKept records why the replica's content is not kept; empty when it is.
func (s *State) answerNotKept(v *Volume, host HostID, why string) *fsmpb.Outcome {
	if why = clip(why); v.ActiveReplica(host).NotKeptReason != why {
		updated := v.withReplication()
		updated.ActiveReplica(host).NotKeptReason = why
		s.putVolume(updated)
	}
	return &fsmpb.Outcome{VolumeId: string(v.ID)}
}

// answerNotKeptBeforeSync: the replica is brought up to date although what it has cannot be kept; the condition says so.
func (s *State) answerNotKeptBeforeSync(v *Volume, host HostID, why string) *fsmpb.Outcome {
	if m := v.RelationMember; m != nil && m.ApartHost == host && !m.DiscardUnkept { // what was given up by force is not discarded so
		return s.answerNotKept(v, host, "what it has cannot be kept: "+why)
	}
	updated := v.withReplication()
	l := updated.ActiveReplica(host)
	l.KeepDue, l.NotKeptReason = false, clip(notKeptBeforeSync+why)
	s.putVolume(updated)
	return &fsmpb.Outcome{VolumeId: string(v.ID)}
}

// isNotKept tells whether the replica waits, as what it has cannot be kept.
func (l *ReplicaSync) isNotKept() bool {
	return l.NotKeptReason != "" && !strings.HasPrefix(l.NotKeptReason, notKeptBeforeSync)
}

// notKeptBeforeSync begins the reason why a replica is overwritten without a copy.
const notKeptBeforeSync = "it is synchronised without a copy of what it had: "

// withKept is the volume whose host kept what its replica had: it may be overwritten now.
func (v *Volume) withKept(host HostID) (Volume, bool) {
	if l := v.ActiveReplica(host); l == nil || !l.KeepDue {
		return *v, false
	}
	updated := v.withReplication()
	updated.ActiveReplica(host).KeepDue = false
	return updated, true
}

// snapshotKept: the copy is in the host's pool. One that is not recorded yet is recorded,
// never removed; repeated, it changes nothing. If its volume is being deleted, its removal
// is pending at once.
func (s *State) snapshotKept(n *Node, o *fsmpb.Observation, f *fsmpb.SnapshotKept) {
	id := SnapshotID(o.GetSnapshotId())
	known, ok := s.Snapshot(id)
	var updated Snapshot
	if ok {
		if known.KeptCopy == nil || known.Host != n.Host || known.Phase != SnapshotTaking {
			return
		}
		updated = *known
	} else {
		v, exists := s.Volume(VolumeID(o.GetVolumeId()))
		if !exists || v.Replication == nil || !id.Valid() || f.GetAttach() == 0 || n.pool(PoolID(f.GetPoolId())) == nil {
			return
		}
		updated = newKeptCopy(v, n, id, PoolID(f.GetPoolId()))
		updated.Created, updated.KeptCopy = s.epoch(), &KeptCopy{Reason: "found on its host", Attachment: f.GetAttach(), Partial: v.RelationMember != nil}
	}
	updated.Phase, updated.TakenAt = SnapshotReady, TimeOf(max(1, f.GetCutUnixNano()))
	v, exists := s.Volume(updated.Source)
	if exists && v.Replication != nil {
		if kept, due := v.withKept(n.Host); due {
			s.putVolume(kept)
		}
	}
	if exists && v.allInSync() {
		updated.KeptCopy = updated.KeptCopy.withSuperseded(s.cluster.Time)
	}
	if exists && v.isDeleting() {
		updated.Phase = SnapshotDeleting
	}
	s.putSnapshot(updated)
}

// hasKeptCopy tells whether the copy is recorded as one that the host keeps.
func (s *State) hasKeptCopy(n *Node, id SnapshotID) bool {
	existing, ok := s.Snapshot(id)
	return ok && existing.KeptCopy != nil && existing.Host == n.Host && existing.Phase == SnapshotReady
}

// KeptCopies yields the kept copies of outdated replicas, in order of their volumes.
func (s *State) KeptCopies() iter.Seq[*Snapshot] {
	return func(yield func(*Snapshot) bool) {
		s.snapshots.index.keptCopies.Scan(func(p idPair) bool {
			n, ok := s.Snapshot(SnapshotID(p.id))
			return !ok || yield(n)
		})
	}
}

// keptCopiesOf yields those of one volume, in order of id.
func (s *State) keptCopiesOf(id VolumeID) iter.Seq[*Snapshot] {
	return func(yield func(*Snapshot) bool) {
		s.snapshots.index.keptCopies.Ascend(idPair{subject: string(id)}, func(p idPair) bool {
			n, ok := s.Snapshot(SnapshotID(p.id))
			return p.subject == string(id) && (!ok || yield(n))
		})
	}
}

// MayExpire tells whether a kept copy may be removed without a request now: no operation under way needs it.
func (s *State) MayExpire(n *Snapshot) bool {
	return n.Phase == SnapshotReady && s.isSuperseded(n) && s.checkNotSource(Busy, "", string(n.ID)) == nil
}

// liveKeptCopiesOf are the kept copies of a volume that are not being removed, the oldest first.
func (s *State) liveKeptCopiesOf(id VolumeID) []*Snapshot {
	var all []*Snapshot
	for n := range s.keptCopiesOf(id) {
		if n.Phase != SnapshotDeleting {
			all = append(all, n)
		}
	}
	slices.SortStableFunc(all, func(a, b *Snapshot) int { return cmp.Compare(a.Created.Index, b.Created.Index) })
	return all
}

// liveKeptCopiesOn are those of one host.
func (s *State) liveKeptCopiesOn(id VolumeID, host HostID) []*Snapshot {
	return slices.DeleteFunc(s.liveKeptCopiesOf(id), func(n *Snapshot) bool { return n.Host != host })
}

// isRemovingKeptCopy tells whether a removal of a copy of the volume is pending on the host.
func (s *State) isRemovingKeptCopy(id VolumeID, host HostID) bool {
	for n := range s.keptCopiesOf(id) {
		if n.Phase == SnapshotDeleting && n.Host == host {
			return true
		}
	}
	return false
}

// removeKeptCopies makes the copies pending removals of their hosts, also one that may
// not have been taken yet.
func (s *State) removeKeptCopies(copies ...*Snapshot) {
	for _, n := range copies {
		updated := *n
		updated.Phase = SnapshotDeleting
		s.putSnapshot(updated)
	}
}

// supersedeKeptCopies: all replicas of the volume are up to date. Copies that were not taken
// yet are not needed, and the others may expire from here on; not while the volume is ahead of others of its group.
func (s *State) supersedeKeptCopies(id VolumeID) {
	for _, n := range s.liveKeptCopiesOf(id) {
		updated := *n
		switch {
		case n.KeptCopy.Adopted:
			continue
		case n.Phase == SnapshotTaking, n.KeptCopy.BeforeSync && !s.isAhead(id) && s.checkNotSource(Busy, "", string(n.ID)) == nil:
			updated.Phase = SnapshotDeleting
		case n.KeptCopy.Superseded.IsZero():
			updated.KeptCopy = n.KeptCopy.withSuperseded(s.cluster.Time)
		default:
			continue
		}
		s.putSnapshot(updated)
	}
}

func (k *KeptCopy) withSuperseded(at time.Time) *KeptCopy {
	updated := *k
	updated.Superseded = TimeOf(max(1, nanosOf(at)))
	return &updated
}

// isSuperseded tells whether a kept copy may expire now: all replicas of its volume were up to
// date since it was taken, and are.
func (s *State) isSuperseded(n *Snapshot) bool {
	if n.KeptCopy == nil || n.KeptCopy.Superseded.IsZero() {
		return false
	}
	v, ok := s.Volume(n.Source)
	held := n.KeptCopy.BeforeSync && s.isAhead(n.Source)
	return !ok || v.allInSync() && !held || v.isDeleting()
}

// allInSync tells whether a replicated volume has all its replicas, each up to date.
func (v *Volume) allInSync() bool {
	r := v.Replication
	if r == nil || r.InitialSyncIndex == 0 {
		return false
	}
	active := v.ActiveReplicas()
	return len(active) >= int(r.ReplicaCount) && allUpToDate(active)
}

func (v *Volume) isDeleting() bool {
	_, deleting := v.Phase.(Deleting)
	return deleting
}
