package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// DesiredReplica is the desired state of one host's replica of a replicated volume.
type DesiredReplica struct {
	Protocol    fsmpb.Protocol
	Minor, Port uint32
	// Seed: this host sets the volume's first current UUID, when both replicas are
	// connected and just created.
	Seed bool
	// SyncFromSeed: the seed's content was created from a source, so the other replica is
	// synchronised from it before the volume is Ready: it is invalidated once both are
	// connected and have a current UUID. It is false again once a host reported that it
	// synchronises: no earlier observation counts for the initial sync.
	SyncFromSeed    bool
	InitialSyncDone bool
	Generation      uint64 // of what the host observes after it read this desired state
	Address         string // this host's
	Peer            *ReplicaPeer
	// Connect: the kernel is to be connected to its peer; else `disconnect --force`,
	// which keeps an UpToDate disk and freezes the peer (S8).
	Connect bool
	// Outdated: the peer was primary without this replica. It is torn down, and connects
	// only by discarding its own data (S9).
	Outdated bool
	UpToDate bool // recorded so, in this attachment
	// Primary: this host should be primary under its publication. It still needs a
	// grant of its own boot and session for it (S2).
	Primary bool
	// PromotionDone: the host reported that it was primary under this publication. From then
	// on only staging requests another promotion, after a reboot for example.
	PromotionDone   bool
	Force           bool               // a decision to force is recorded for this host
	Attachment      uint64             // the last that was recorded
	DiskFailed      uint64             // the attachment in which the disk failed; 0: none
	Observed        ReplicaObservation // the last that was recorded of this host
	BackingCapacity int64              // bytes of volume that every replica's backing device has room for
	InSyncUUID      uint64             // of the content that both had after the initial sync or at a clean demotion
	Fenced          bool               // this host is: it attaches no disk (S58)
	// Converting: DRBD's metadata are put behind the content that the seed's device has, and its first content
	// is copied to the other one. Unconvert: that is undone, and the seed's device is as it was (S55).
	Converting, Unconvert bool
	// ConversionRestored: the log was restored to the middle of the conversion, which may be over since long. Nothing of it is
	// begun or discarded; the seed's host says whether it was not begun there.
	ConversionRestored bool
	// Apart: what this replica has was given up by force. It is left as it is, not attached and not copied, until
	// somebody decides about it (S48). DiscardUnkept: it may be discarded without a copy.
	Apart, DiscardUnkept bool
	// KeepDue: what it has is kept before it connects, as it would be overwritten (S50).
	KeepDue bool
	// RevertTo is the kept copy to which this replica's device goes back before it is attached (S43).
	RevertTo SnapshotID
	// Reverted: it did, and its disk is Inconsistent until it is primary.
	Reverted bool
	// FreezeIsolated: as primary, without its peer and without controllers, it suspends its I/O (S45).
	FreezeIsolated bool
}

// ReplicaPeer is the other replica's host.
type ReplicaPeer struct {
	Node      NodeID
	Host      HostID
	Address   string
	PublicKey []byte // X25519
	// UpToDate: it is recorded that it has every acknowledged write. Incomplete: it has not,
	// as its peer was primary without it, its disk failed or its device is missing.
	UpToDate, Incomplete bool
	// DiskAttached is set only for a host whose own disk failed or is not attached: the peer's
	// is. That host is reachable, and reported under the current generation that its kernel
	// has the disk and does not call it outdated.
	DiskAttached bool
	// DiskGone: its disk failed and is not attached. It comes back by a copy of this host's, or by a decision.
	DiskGone bool
}

// desiredReplica is the desired state of a host's replica, nil for local volumes.
func (s *State) desiredReplica(n *Node, v *Volume) *DesiredReplica {
	r := v.onHost(n.Host)
	if r == nil {
		return nil
	}
	d := &DesiredReplica{
		Protocol: r.Protocol, Minor: r.Minor, Port: r.Port, Address: n.Replication.Address,
		Seed: r.Seed == n.Host && r.InitialSyncIndex == 0, SyncFromSeed: v.Replication != nil && s.needsSyncFromSeed(v), InitialSyncDone: r.InitialSyncIndex != 0, Generation: r.Generation,
		Force: r.Forced != nil && r.Forced.Host == n.Host, BackingCapacity: v.minBackingCapacity(),
		Fenced: n.IsFenced(),
	}
	own, other := v.ActiveReplica(n.Host), v.PeerReplica(n.Host)
	if other != nil {
		d.Peer = s.replicaPeer(v, other)
	}
	if own == nil {
		return d // it is being removed
	}
	d.Connect = d.Peer != nil && s.shouldConnect(v, own, other)
	s.desireRelation(d, n, v, own)
	d.Outdated, d.UpToDate, d.Attachment, d.Observed, d.InSyncUUID = own.Outdated, own.UpToDate, own.Attachment, own.Observed, own.InSyncUUID.Value
	d.DiskFailed = own.DiskFailed
	if d.Peer != nil {
		d.Peer.DiskAttached = own.waitsForPeer() && !d.Peer.Incomplete && s.diskAttachedNow(v, other)
	}
	// For a reclaim the host becomes primary by itself when it begins, and not again when that was interrupted.
	if p := v.Publication(n.ID); p != nil && p.Host == n.Host && n.Incarnation == s.cluster.Incarnation && !p.Reclaim {
		d.Primary = !own.Outdated || d.Force
		d.PromotionDone = p.Staging != nil || r.Primary != nil && r.Primary.Host == n.Host && r.Primary.Epoch == p.Epoch && r.Primary.Done
	}
	return d
}

// onHost is the replication that a host has to do with: also that of a conversion that was undone, of which it has
// the rest. The host whose content is converted has none before the other one is ready.
func (v *Volume) onHost(host HostID) *Replication {
	switch r := v.replicaOn(host); {
	case v.isPlainOn(host):
		return nil
	case v.Replication == nil && v.Unconverted != nil && r != nil && r.State == ReplicaLeaving:
		return v.Unconverted.replication()
	}
	return v.Replication
}

// desireRelation is what replication between sites adds to the desired state.
func (s *State) desireRelation(d *DesiredReplica, n *Node, v *Volume, own *Replica) {
	if c := v.converting(); c != nil {
		d.Converting, d.ConversionRestored = !c.Undoing || c.Restored, c.Restored
		d.Unconvert = !d.Converting && v.Replication.Seed == n.Host
		d.Connect = d.Connect && (c.OnSeed && !c.Undoing || c.Restored)
	}
	if r := v.Replication.Revert; r != nil && r.Host == n.Host && !r.Done {
		d.RevertTo = r.Snapshot
	}
	d.Reverted = v.Replication.isReverted(n.Host)
	d.KeepDue = own.KeepDue
	if m := v.RelationMember; m != nil {
		d.Apart, d.DiscardUnkept = v.isApart(n.site()), m.DiscardUnkept
	}
	if relation := s.RelationOf(v); relation != nil {
		d.FreezeIsolated = relation.FreezeIsolated && relation.isPrimary(n.site())
	}
}

// needsSyncFromSeed tells whether the other replica has yet to be synchronised from the seed's
// copy of the source.
func (s *State) needsSyncFromSeed(v *Volume) bool {
	if c := v.converting(); c != nil {
		return c.OnSeed && !c.Undoing || c.Restored
	}
	return v.isCreating() && !v.Source.IsZero() && v.Replication.Generation == v.Created.Index
}

func (s *State) replicaPeer(v *Volume, l *Replica) *ReplicaPeer {
	n, ok := s.nodeOfReplica(l)
	if !ok {
		return nil
	}
	incomplete := l.Outdated || l.DiskFailed != 0 || l.Observed.diskUnusable() || l.State == ReplicaMissing
	return &ReplicaPeer{
		Node: n.ID, Host: n.Host, Address: n.Replication.Address, PublicKey: []byte(n.Replication.PublicKey),
		UpToDate: l.UpToDate && !incomplete, Incomplete: incomplete, DiskGone: l.diskGone(),
	}
}

// waitsForPeer: its disk failed or is not attached. What its host may do then can depend on
// whether the peer's disk is attached (S67).
func (l *ReplicaSync) waitsForPeer() bool {
	return l.DiskFailed != 0 || l.Observed.Unconfigured || l.Observed.Disk <= fsmpb.DiskState_DISK_STATE_FAILED
}

// diskAttachedNow tells whether the replica's host is reachable, and its kernel has the disk.
func (s *State) diskAttachedNow(v *Volume, l *Replica) bool {
	n, ok := s.nodeOfReplica(l)
	x := &l.Observed
	return ok && n.canBeAsked() && l.isOfAttachment(n, *x) && x.Generation == v.Replication.Generation && !x.Unconfigured &&
		x.Disk >= fsmpb.DiskState_DISK_STATE_CONSISTENT
}

// shouldConnect: a replica does not connect to a peer whose publication was revoked while the
// peer is unreachable or outdated. Such a peer may still be primary: its I/O freezes (S8), and
// it reconnects only after it was torn down (S9), so there is no split brain. Two replicas
// that are outdated, or whose disks failed, stay disconnected, as neither can be the other's sync
// source, until one of them is forced (S67, S71).
func (s *State) shouldConnect(v *Volume, own, other *Replica) bool {
	if v.Teardown(other.Host) != nil && (other.Outdated || !s.replicaReachable(other)) {
		return false
	}
	if s.staysApart(v, own, other) {
		return false
	}
	if v.converting() != nil {
		return true // the second replica is outdated, and has nothing
	}
	if s.level2() && (own.Outdated && other.Outdated || s.neitherIsASource(v, own, other)) {
		return false
	}
	return !own.Outdated || v.Teardown(own.Host) == nil
}

// staysApart: content that was given up waits for a decision (S48), what a replica has is kept first (S50), a replica
// goes back to a kept copy and was not primary since (S43), or the members of its group are disconnected together (S52). Both hosts disconnect for
// what one of them keeps: its kernel may reach the other one again before that host hears of it.
func (s *State) staysApart(v *Volume, own, other *Replica) bool {
	if v.Replication.Revert != nil || v.RelationMember != nil && v.RelationMember.Apart && !plantedbug.Is(plantedbug.ApartConnects) || own.KeepDue || other.KeepDue {
		return true
	}
	relation := s.RelationOf(v)
	if relation == nil || relation.Cut == 0 {
		return false
	}
	return s.staysCut(v)
}

// neitherIsASource: each of the replicas lacks content, and nobody uses the volume.
func (s *State) neitherIsASource(v *Volume, a, b *Replica) bool {
	return v.lacksContent(a, b) && v.lacksContent(b, a) && s.isUnused(v)
}

// isUnused: no host may be primary, and none said that it is.
func (s *State) isUnused(v *Volume) bool {
	used := func(l *Replica) bool { return l.Observed.Primary }
	return s.PrimaryHost(v) == "" && !slices.ContainsFunc(v.ActiveReplicas(), used)
}

// lacksContent: the replica is outdated or its disk failed, and was not copied since. A disk that failed and is
// attached was made anew, and was copied unless it is Inconsistent, beside a peer whose disk failed since; by a decision it
// is attached as it failed. One that is to go on by a decision, and whose kernel does not know whether it is up to date, is no
// source before that.
func (v *Volume) lacksContent(l, peer *Replica) bool {
	forced := v.Replication.Forced != nil && v.Replication.Forced.Host == l.Host
	switch {
	case l.Outdated:
		return true
	case l.DiskFailed != 0 && !l.UpToDate:
		blank := l.Observed.Disk <= fsmpb.DiskState_DISK_STATE_INCONSISTENT && peer.diskGone()
		return forced || !l.Observed.hasDisk() || blank
	}
	whole := l.Observed.Disk == fsmpb.DiskState_DISK_STATE_OUTDATED || l.Observed.Disk == fsmpb.DiskState_DISK_STATE_CONSISTENT
	return forced && whole && peer.diskGone()
}

// diskGone: its disk failed, and is not attached.
func (l *ReplicaSync) diskGone() bool { return l.DiskFailed != 0 && !l.Observed.hasDisk() }

// hasDisk tells whether the kernel has the disk attached.
func (r ReplicaObservation) hasDisk() bool {
	return !r.Unconfigured && r.Disk > fsmpb.DiskState_DISK_STATE_FAILED
}

// minBackingCapacity is the largest size of the volume, in bytes, that every backing device has
// room for, as last observed; 0 while one was not observed.
func (v *Volume) minBackingCapacity() int64 {
	var least int64
	for i, l := range v.ActiveReplicas() {
		if b := l.Observed.BackingCapacity; i == 0 || b < least {
			least = b
		}
	}
	return least
}
