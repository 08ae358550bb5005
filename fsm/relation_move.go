package fsm

import (
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// settleRelations moves the roles that wait for former primaries, and ends the cuts of groups, as far as this entry
// allows. It comes after whatever the entry did, and returns the roles that moved.
func (s *State) settleRelations(m Meta) (moved []*fsmpb.RoleMoved) {
	if s.index.unsettled.Len() == 0 {
		return nil
	}
	for _, owner := range s.index.unsettled.Keys() {
		x := s.sourceOf(owner)
		if x == nil || !x.relation.isUnsettled() {
			continue
		}
		if move := x.relation.Move; move != nil && (x.isCutOff(move.From) || plantedbug.Is(plantedbug.MoveNotAwaited)) {
			e := x.edit()
			e.relation = e.relation.withOusted(Ousted{Site: move.From, Index: m.Index})
			e.setRole(move.To, m.Index)
			e.put()
			moved = append(moved, x.moved(move))
			continue
		}
		if x.relation.Cut != 0 && x.isCutTogether() {
			e := x.edit()
			e.relation.Cut = 0
			for i := range e.volumes {
				e.volume(i) // its hosts connect again
			}
			e.put()
		}
	}
	return moved
}

// moved is what the entry that ends a move answers.
func (x *replicationSource) moved(move *Move) *fsmpb.RoleMoved {
	out := x.outcome()
	return &fsmpb.RoleMoved{VolumeId: out.GetVolumeId(), VolumeGroupId: out.GetVolumeGroupId(), Site: move.To.String(), From: move.From.String()}
}

// sourceOf is the source that has an id; nil when there is none any more.
func (s *State) sourceOf(owner string) *replicationSource {
	x := &replicationSource{s: s}
	if VolumeGroupID(owner).Valid() {
		if x.readGroup(owner) != nil || x.relation == nil {
			return nil
		}
		return x
	}
	if x.readVolume(owner) != nil || x.relation == nil {
		return nil
	}
	return x
}

// isCutOff tells whether no host of the site can write to any of the volumes beside the other site (S42).
func (x *replicationSource) isCutOff(site Site) bool {
	for _, v := range x.members {
		if !x.s.isSiteCutOff(v, site) {
			return false
		}
	}
	return true
}

// isSiteCutOff: each host of the site ended its use of the volume, or was outdated, or its peer disconnected it in
// the current generation and may go on without it.
func (s *State) isSiteCutOff(v *Volume, site Site) bool {
	if s.publicationAt(v, site) != nil {
		return false
	}
	for _, t := range v.Teardowns {
		former, survivor := v.ActiveReplica(t.Host), v.PeerReplica(t.Host)
		if s.siteOf(t.Node) != site || former == nil {
			continue
		}
		if survivor == nil || !former.Outdated && !s.isolatedBy(v, survivor) || former.Outdated && !s.isSevered(v, survivor) {
			return false
		}
	}
	return true
}
