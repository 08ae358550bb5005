package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// isForcedInPart tells whether the volume's replica at the site was promoted by force as it was, and turned out to have been
// overwritten in part already: its host's report of that came later. It was not primary, and never will be as it is (S43).
func (s *State) isForcedInPart(v *Volume, site Site) bool {
	l := s.replicaAt(v, site)
	if l == nil || v.Replication.Forced == nil || v.Replication.Forced.Host != l.Host || v.Replication.Revert != nil {
		return false
	}
	unused := v.Replication.LastGrantIndex < v.Replication.Forced.Index
	return unused && !l.Observed.Unconfigured && l.Observed.Disk == fsmpb.DiskState_DISK_STATE_INCONSISTENT
}

// goBackWhereInPart is a repeated promotion by force: members of which a part was overwritten before go back to what was kept,
// unless the other site, which has everything, can be asked again, and nothing was used here, so that a demotion withdraws the
// force (S44).
func (p *sitePromotion) goBackWhereInPart() (*fsmpb.Outcome, *Rejection) {
	e := p.edit()
	for i, v := range e.members {
		if !p.s.isForcedInPart(v, p.m.site) {
			continue
		}
		if p.s.siteCanBeAsked(p.members, p.other) && p.isForceUnused() {
			return nil, Reject(Busy, "promote volume %s: a part of its replica at site %s had been overwritten, and site %s can be asked again: demote it here, and its data are coming", v.ID, p.m.site, p.other)
		}
		plan, rej := p.s.forcedReplica(v, p.s.replicaAt(v, p.m.site))
		if rej != nil {
			return nil, rej
		}
		*e.volume(i) = p.withForced(v, plan, true, v.Replication.Forced.GivenUpGeneration)
	}
	e.putVolumes()
	return p.outcome(), nil
}
