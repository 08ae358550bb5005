package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// Revert is a replica whose device goes back to a kept copy before it is used (S43). Its metadata are made anew with
// that: those of the copy would let a kernel patch the other replica by a bitmap that names too little.
type Revert struct {
	Host     HostID
	Snapshot SnapshotID
	Index    uint64
	// Done: the host reported the device reverted. Its kernel calls the disk Inconsistent until it is primary.
	Done bool
}

// promoteByForce promotes replicas that may lack acknowledged writes: consented to by the caller, while no host of
// the other site can be asked. What is given up is recorded of each volume (S44), and the other site's replicas stay
// as they are until somebody decides about them (S48).
func (p *sitePromotion) promoteByForce(behind []*Volume) (*fsmpb.Outcome, *Rejection) {
	plans := map[VolumeID]forcedReplica{}
	for _, v := range behind {
		plan, rej := p.s.forcedReplica(v, p.s.replicaAt(v, p.m.site))
		if rej != nil {
			return nil, rej
		}
		plans[v.ID] = plan
	}
	if rej := p.checkOneInstant(behind, plans); rej != nil {
		return nil, rej
	}
	e := p.edit()
	out := p.outcome()
	for i := range e.volumes {
		p.endUseAtOther(e, i)
		plan, forced := plans[e.volumes[i].ID]
		if !forced {
			plan.host = p.s.replicaAt(&e.volumes[i], p.m.site).Host
		}
		updated := p.withForced(&e.volumes[i], plan, forced, e.members[i].Replication.Generation)
		*e.volume(i) = updated
		if g := updated.RelationMember.GivenUp; g != nil && g.Index == p.m.Index {
			out.GivenUp = append(out.GivenUp, g.proto(updated.ID))
		}
	}
	e.relation = e.relation.withOusted(Ousted{Site: p.other, Index: p.m.Index, Forced: true})
	e.setRole(p.m.site, p.m.Index)
	e.put()
	return out, nil
}

func (g *GivenUp) proto(id VolumeID) *fsmpb.GivenUp {
	return &fsmpb.GivenUp{VolumeId: string(id), Generation: g.Generation, SinceUnixNano: nanosOf(g.Since), RevertedTo: string(g.RevertedTo)}
}

// forcedReplica is how a replica that may lack writes goes on: as it is, or from a kept copy.
type forcedReplica struct {
	host     HostID
	revertTo SnapshotID
}

// forcedReplica refuses what no force makes usable (S43).
func (s *State) forcedReplica(v *Volume, l *Replica) (forcedReplica, *Rejection) {
	plan := forcedReplica{host: l.Host}
	part := l.Observed.Disk == fsmpb.DiskState_DISK_STATE_INCONSISTENT
	switch {
	case l.Synced && l.DiskFailed == 0 && (l.Observed.Disk >= fsmpb.DiskState_DISK_STATE_OUTDATED || plantedbug.Is(plantedbug.PartOfContentPromoted)) && !v.isReverting():
		return plan, nil
	case part && v.Replication.isReverted(l.Host):
		return plan, nil // it went back already, and was not primary since
	case part && l.Observed.Connected():
		return plan, Reject(Busy, "promote volume %s: its replica on node %s is connected to its peer, which is copied to it still: force is not the answer", v.ID, l.Node)
	}
	if kept := s.newestKeptCopy(v, l.Host); kept != nil && l.Synced {
		plan.revertTo = kept.ID
		return plan, nil
	}
	if !l.Synced {
		return plan, Reject(Busy, "promote volume %s: its replica on node %s was never whole since replication was enabled: force is not the answer", v.ID, l.Node)
	}
	return plan, Reject(Busy, "promote volume %s: its replica on node %s has a part of the content only (%s), and its host kept no copy of what it had before: force is not the answer", v.ID, l.Node, diskName(l.Observed.Disk))
}

// newestKeptCopy is the whole copy that a host took last of what it had of the volume. One that was superseded is of a fork
// that was given up before both sites were equal again, unless it is that of the cut of a member that is ahead of others.
func (s *State) newestKeptCopy(v *Volume, host HostID) (newest *Snapshot) {
	for _, n := range s.liveKeptCopiesOn(v.ID, host) {
		current := n.KeptCopy.Superseded.IsZero() || n.KeptCopy.BeforeSync && v.RelationMember.Ahead
		whole := !n.KeptCopy.Partial && !n.KeptCopy.Adopted && current && n.Created.Index > s.RelationOf(v).Enabled // before that nothing was noted of it
		if n.Phase == SnapshotReady && whole && (newest == nil || n.Created.Index > newest.Created.Index) {
			newest = n
		}
	}
	return newest
}

// isReverting tells whether a replica has yet to go back to a kept copy.
func (v *Volume) isReverting() bool {
	return v.Replication != nil && v.Replication.Revert != nil && !v.Replication.Revert.Done
}

// isReverted tells whether the host's replica went back to a kept copy and was not primary since.
func (r *Replication) isReverted(host HostID) bool {
	return r.Revert != nil && r.Revert.Done && r.Revert.Host == host
}

// withForced is the volume after a forced promotion of its replica here, which gives up what the generation may have.
func (p *sitePromotion) withForced(v *Volume, plan forcedReplica, forced bool, generation uint64) Volume {
	updated := v.withReplication()
	r := updated.Replication
	member := v.RelationMember.clone()
	member.Ahead = false
	other := p.s.replicaAt(&updated, p.other)
	if other != nil {
		member.Apart, member.ApartAt, member.ApartHost, member.DiscardUnkept = true, p.other, other.Host, false
		other.Partial = other.Partial || other.DiskFailed != 0
		other.KeepDue = (forced || other.Outdated) && !other.Partial // else it is kept when it is outdated
	}
	if forced {
		member.GivenUp = &GivenUp{Index: p.m.Index, Generation: generation, Since: member.InSyncAt, RevertedTo: plan.revertTo}
		r.Forced = &ForcedPrimary{Host: plan.host, Index: p.m.Index, GivenUpGeneration: generation, Reason: "promoted by force at site " + p.m.site.String(), PeerDead: true}
		if other != nil {
			member.OutdatedByForce = !other.Outdated
			if !other.Outdated {
				other.CutIndex, other.Copied = p.m.Index, false
			}
			if !plantedbug.Is(plantedbug.OtherSiteStaysCurrent) {
				other.markOutdated(v.Crypt)
			}
		}
	}
	if r.Revert != nil && r.Revert.Host != plan.host {
		r.Revert = nil
	}
	if plan.revertTo != "" {
		r.Revert = &Revert{Host: plan.host, Snapshot: plan.revertTo, Index: p.m.Index}
		if other != nil && other.DiskFailed == 0 {
			other.DiskFailed = other.Attachment // no bitmap names how the two differ (S43)
		}
	}
	r.Generation = p.m.Index
	if own := updated.ActiveReplica(plan.host); own != nil {
		own.KeepDue = false // it is used as it is
	}
	updated.RelationMember = member
	return updated
}

// withForceWithdrawn is the volume after a demotion of a site that was promoted by force, and was not used since: nothing was
// given up, and the other replica has what it had.
func (s *State) withForceWithdrawn(v *Volume, site Site, index uint64) (Volume, bool) {
	r, m, own := v.Replication, v.RelationMember, s.replicaAt(v, site)
	unused := own != nil && r.Forced != nil && r.Forced.Host == own.Host && r.LastGrantIndex < r.Forced.Index && r.Revert == nil
	if !unused || !m.OutdatedByForce {
		return *v, false
	}
	updated, member := v.withReplication(), m.clone()
	if other := updated.ActiveReplica(m.ApartHost); other != nil {
		other.Outdated, other.NotKeptReason, other.KeyGeneration, other.KeepDue = false, "", 0, false
		other.CutIndex, other.Copied = 0, false
	}
	member.Apart, member.ApartAt, member.ApartHost, member.OutdatedByForce, member.DiscardUnkept, member.GivenUp = false, "", "", false, false, nil
	updated.Replication.Forced, updated.Replication.Generation, updated.RelationMember = nil, index, member
	if l := updated.ActiveReplica(own.Host); l.Outdated && l.Synced && !l.Partial && l.DiskFailed == 0 && !s.RelationOf(v).DiscardUnkept {
		l.KeepDue = true // it was to be kept, or would have been
	}
	return updated, true
}

// isForceUnused tells whether nothing was used since the site got its role, so that the force can be withdrawn of all members. Of
// a part of them it is not: the group would be of what counts at one site and of what counts at the other (S44).
func (x *replicationSource) isForceUnused() bool {
	return !slices.ContainsFunc(x.members, func(v *Volume) bool {
		return v.Replication != nil && (v.Replication.LastGrantIndex > x.relation.Role || v.Replication.Revert != nil)
	})
}

// replicaReverted: the replica's device has the content of the kept copy.
func (x reportContext) replicaReverted(v *Volume, f *fsmpb.ReplicaReverted) (Volume, bool) {
	if !v.isReverting() || v.Replication.Revert.Host != x.host.Host || string(v.Replication.Revert.Snapshot) != f.GetSnapshotId() {
		return *v, false
	}
	updated := v.withReplication()
	done := *v.Replication.Revert
	done.Done = true
	updated.Replication.Revert = &done
	updated.Replication.Generation = x.state.cluster.Index
	if own := updated.ActiveReplica(x.host.Host); own != nil {
		own.Observed, own.UpToDate, own.DiskFailed = ReplicaObservation{}, false, 0
		own.InSyncUUID, own.SoloPrimaryUUID = RecordedUUID{}, RecordedUUID{}
	}
	return updated, true
}
