package fsm

import (
	"cmp"
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func compareSites(a, b Site) int { return cmp.Compare(a, b) }

// Numbers behind which what belongs to replication between sites is hashed, where it is set.
const (
	fieldRelation       = 100
	fieldRelationMember = 101
	fieldUnconverted    = 102
	fieldConversion     = 103
	fieldRevert         = 104
	fieldSynced         = 105
	fieldKeepDue        = 106
	fieldGroupNames     = 107
	fieldBeforeSync     = 108
	fieldGivenUp        = 109
	fieldRoleMoved      = 110
	fieldPartial        = 111
	fieldPartialCopy    = 112
	fieldRestored       = 113
	fieldCutIndex       = 114
	fieldCutWith        = 115
	fieldUseEnded       = 116
	fieldAdoptedCopy    = 117
)

func hashRelation(e *encoder, r *Relation) {
	if r == nil {
		return
	}
	e.u64(fieldRelation)
	for _, s := range r.Sites {
		e.str(string(s))
	}
	e.str(r.ReplicationID)
	e.bool(r.Promoted)
	e.str(string(r.Primary))
	e.u64(r.Role)
	e.bool(r.Move != nil)
	if m := r.Move; m != nil {
		e.str(string(m.To))
		e.str(string(m.From))
		e.u64(m.Index)
	}
	e.u64(uint64(len(r.Ousted)))
	for _, o := range r.Ousted {
		e.str(string(o.Site))
		e.u64(o.Index)
		e.bool(o.Forced)
	}
	e.u64(uint64(len(r.Claims)))
	for _, c := range r.Claims {
		e.str(string(c))
	}
	e.bool(r.DiscardUnkept)
	e.bool(r.Separately)
	e.bool(r.FreezeIsolated)
	e.u64(r.Cut)
	e.u64(r.Enabled)
}

func (r *Relation) record() *fsmpb.RelationRecord {
	if r == nil {
		return nil
	}
	p := &fsmpb.RelationRecord{
		Sites: siteNames(r.Sites), ReplicationId: r.ReplicationID, Promoted: r.Promoted, Primary: string(r.Primary), Role: r.Role,
		Claims: siteNames(r.Claims), DiscardUnkept: r.DiscardUnkept, Separately: r.Separately, FreezeIsolated: r.FreezeIsolated, Cut: r.Cut, Enabled: r.Enabled,
	}
	if m := r.Move; m != nil {
		p.Move = &fsmpb.MoveRecord{To: string(m.To), From: string(m.From), Index: m.Index}
	}
	for _, o := range r.Ousted {
		p.Ousted = append(p.Ousted, &fsmpb.OustedRecord{Site: string(o.Site), Index: o.Index, Forced: o.Forced})
	}
	return p
}

func relationFrom(p *fsmpb.RelationRecord, err *error) *Relation {
	if p == nil {
		return nil
	}
	sites := sitesFrom(p.GetSites())
	if len(sites) != MaxReplicas {
		*err = errForm
		return nil
	}
	r := &Relation{
		Sites: sites, ReplicationID: p.GetReplicationId(), Promoted: p.GetPromoted(), Primary: Site(p.GetPrimary()), Role: p.GetRole(),
		Claims: sitesFrom(p.GetClaims()), DiscardUnkept: p.GetDiscardUnkept(), Separately: p.GetSeparately(), FreezeIsolated: p.GetFreezeIsolated(), Cut: p.GetCut(), Enabled: p.GetEnabled(),
	}
	if m := p.GetMove(); m != nil {
		r.Move = &Move{To: Site(m.GetTo()), From: Site(m.GetFrom()), Index: m.GetIndex()}
	}
	for _, o := range p.GetOusted() {
		r.Ousted = append(r.Ousted, Ousted{Site: Site(o.GetSite()), Index: o.GetIndex(), Forced: o.GetForced()})
	}
	return r
}

func (m *RelationMember) hash(e *encoder) {
	if m == nil {
		return
	}
	e.u64(fieldRelationMember)
	e.bool(m.Added)
	e.str(string(m.AddedAt))
	e.bool(m.Apart)
	e.str(string(m.ApartAt))
	e.str(string(m.ApartHost))
	e.bool(m.OutdatedByForce)
	e.bool(m.Ahead)
	e.bool(m.DiscardUnkept)
	e.bool(m.GivenUp != nil)
	if g := m.GivenUp; g != nil {
		e.u64(g.Index)
		e.u64(g.Generation)
		e.i64(nanosOf(g.Since))
		e.str(string(g.RevertedTo))
	}
	e.i64(nanosOf(m.InSyncAt))
	e.i64(nanosOf(m.Sync.Began))
	e.i64(m.Sync.Bytes)
	e.i64(nanosOf(m.LastSync.Ended))
	e.i64(m.LastSync.Bytes)
	e.i64(int64(m.LastSync.Duration))
	if m.CutWith != 0 {
		e.u64(fieldCutWith)
		e.u64(m.CutWith)
	}
	if m.UseEnded != 0 {
		e.u64(fieldUseEnded)
		e.u64(m.UseEnded)
	}
}

func (m *RelationMember) record() *fsmpb.RelationMemberRecord {
	if m == nil {
		return nil
	}
	p := &fsmpb.RelationMemberRecord{
		Added: m.Added, AddedAt: string(m.AddedAt), Apart: m.Apart, ApartAt: string(m.ApartAt), ApartHost: string(m.ApartHost), OutdatedByForce: m.OutdatedByForce, Ahead: m.Ahead, DiscardUnkept: m.DiscardUnkept,
		InSyncAt: nanosOf(m.InSyncAt), SyncBegan: nanosOf(m.Sync.Began), SyncBytes: m.Sync.Bytes,
		LastSyncAt: nanosOf(m.LastSync.Ended), LastSyncBytes: m.LastSync.Bytes, LastSyncNanos: int64(m.LastSync.Duration),
		CutWith: m.CutWith, UseEnded: m.UseEnded,
	}
	if g := m.GivenUp; g != nil {
		p.GivenUpIndex, p.GivenUpGeneration, p.GivenUpSince, p.GivenUpTo = g.Index, g.Generation, nanosOf(g.Since), string(g.RevertedTo)
	}
	return p
}

func relationMemberFrom(p *fsmpb.RelationMemberRecord) *RelationMember {
	if p == nil {
		return nil
	}
	m := &RelationMember{
		Added: p.GetAdded(), AddedAt: Site(p.GetAddedAt()), Apart: p.GetApart(), ApartAt: Site(p.GetApartAt()), ApartHost: HostID(p.GetApartHost()), OutdatedByForce: p.GetOutdatedByForce(), Ahead: p.GetAhead(), DiscardUnkept: p.GetDiscardUnkept(),
		InSyncAt: TimeOf(p.GetInSyncAt()), Sync: SyncProgress{Began: TimeOf(p.GetSyncBegan()), Bytes: p.GetSyncBytes()},
		LastSync: SyncResult{Ended: TimeOf(p.GetLastSyncAt()), Bytes: p.GetLastSyncBytes(), Duration: time.Duration(p.GetLastSyncNanos())},
		CutWith:  p.GetCutWith(), UseEnded: p.GetUseEnded(),
	}
	if p.GetGivenUpIndex() != 0 {
		m.GivenUp = &GivenUp{Index: p.GetGivenUpIndex(), Generation: p.GetGivenUpGeneration(), Since: TimeOf(p.GetGivenUpSince()), RevertedTo: SnapshotID(p.GetGivenUpTo())}
	}
	return m
}
