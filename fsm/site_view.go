package fsm

// SiteView is the state as the endpoint of a site shows it: only that site's hosts exist (S36).
type SiteView struct {
	state *State
	at    endpoint
}

// Through is the view of a site's endpoint. At level 1 all hosts are at all sites.
func (s *State) Through(site string) SiteView {
	return SiteView{s, endpoint{site: SiteFrom(site), named: s.level2()}}
}

// UnpublishProgress is the state's for the site's hosts.
func (x SiteView) UnpublishProgress(actor string, id VolumeID, node NodeID) UnpublishProgress {
	return x.state.unpublishProgress(actor, x.at, id, node)
}

// VolumeIsolation is the state's for the site's hosts.
func (x SiteView) VolumeIsolation(id VolumeID, node NodeID) (done bool, waitsFor string) {
	return x.state.volumeIsolation(x.at, id, node)
}

// Available is the state's AvailableReplicated for volumes made through the site's endpoint, with a
// replica at each of two sites where two are named.
func (x SiteView) Available(sites []Site, terms []Topology, replicas uint32, facts Facts) (largest, total int64) {
	return x.state.available(x.at, sites, terms, replicas, facts)
}

// HiddenNodes are those of other sites, nil where there are none: through the endpoint they are not
// known. It may be read without the state.
func (x SiteView) HiddenNodes() map[NodeID]bool {
	var hidden map[NodeID]bool
	for n := range x.state.Nodes() {
		if x.at.serves(n.site()) {
			continue
		}
		if hidden == nil {
			hidden = map[NodeID]bool{}
		}
		hidden[n.ID] = true
	}
	return hidden
}
