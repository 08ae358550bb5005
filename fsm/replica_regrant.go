package fsm

import "slices"

// grantAdopted does grantAsSeen for the volumes of a host that was just adopted: what both hosts observe was perhaps
// reported before. It reads all volumes of the host, once after a restore.
func (s *State) grantAdopted(node NodeID) {
	if !s.level3() {
		return
	}
	for _, v := range slices.Collect(s.VolumesOn(node)) {
		if v.Replication == nil || v.Replication.Primary != nil {
			continue
		}
		updated := v.withReplication()
		if s.grantAsSeen(&updated); updated.Replication.Primary != nil {
			s.putVolume(updated)
		}
	}
}

// grantAsSeen gives the host that is primary the grant that the lost log gave it (S1). A restore forgets grants; both
// hosts are adopted, and their kernels say that they are connected, that both disks have everything and which of them is
// primary. Connected, no other one can be, so it is the grant that SetPrimary would give there. Without it the host that
// goes on would stay suspended when it loses its peer. It needs a publication that it staged under.
func (s *State) grantAsSeen(v *Volume) {
	r := v.Replication
	if !s.level3() || r.Primary != nil || r.LastGrantIndex != 0 || r.Forced != nil || len(v.Teardowns) > 0 || s.RelationOf(v) != nil || len(v.Publications()) != 1 {
		return
	}
	p := v.Publications()[0]
	n, known := s.Node(p.Node)
	own, peer := v.ActiveReplica(p.Host), v.PeerReplica(p.Host)
	if !known || n.Host != p.Host || own == nil || peer == nil || !s.mayRegrant(n, &p, own, peer) {
		return
	}
	r.Primary = &PrimaryGrant{Node: n.ID, Host: n.Host, Boot: n.Boot, Epoch: p.Epoch, Index: s.cluster.Index, Done: true}
	r.Generation, r.LastGrantIndex = s.cluster.Index, s.cluster.Index
	for _, l := range []*Replica{own, peer} {
		l.InSyncUUID, l.SoloPrimaryUUID = RecordedUUID{}, RecordedUUID{}
	}
}

// mayRegrant tells whether both hosts act for this incarnation, and observed in it what grantAsSeen needs.
func (s *State) mayRegrant(n *Node, p *Publication, own, peer *Replica) bool {
	other, known := s.Node(peer.Node)
	adopted := known && other.Host == peer.Host && n.Incarnation == s.cluster.Incarnation && other.Incarnation == n.Incarnation
	staged := p.Staging != nil && p.Staging.Done && p.Staging.Boot == n.Boot && !p.Ending && p.Epoch.Incarnation < s.cluster.Incarnation
	upToDate := own.UpToDate && peer.UpToDate && !own.failedNow() && !peer.failedNow()
	return adopted && staged && upToDate && n.canBeAsked() && !n.IsFenced() &&
		own.Observed.Primary && own.Observed.Connected() && !peer.Observed.Primary && peer.Observed.Connected()
}
