package fsm

import (
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// checkEndpoint refuses a command in the name of a site that its controller does not act for (S32).
// One that is not on record acts for DefaultSite.
func (s *State) checkEndpoint(cmd *fsmpb.Command) *Rejection {
	if cmd.GetSite() == "" || !s.level2() {
		return nil
	}
	if rej := CheckSite(cmd.GetSite()); rej != nil {
		return rej
	}
	if hasRole(cmd.GetActor(), "admin/") || s.level3() && hasRole(cmd.GetActor(), "operator/") {
		return nil // an operator may act for any site
	}
	name, isController := strings.CutPrefix(cmd.GetActor(), "controller/")
	if !isController {
		return Reject(Forbidden, "%s acts for no site", clip(cmd.GetActor()))
	}
	site, known := s.SiteOfMember(name)
	switch {
	case site == SiteFrom(cmd.GetSite()):
		return nil
	case !known:
		return Reject(Unreachable, "controller %s is not recorded with its site %s yet: try again in a few seconds", clip(name), cmd.GetSite())
	}
	return Reject(Forbidden, "controller %s acts for site %s, not %s", clip(name), site, cmd.GetSite())
}

// checkHome refuses to change what another site uses, or nobody may use now (S29, S35).
func (s *State) checkHome(at endpoint, action string, v *Volume) *Rejection {
	r := s.RelationOf(v)
	switch {
	case r != nil && r.Move != nil:
		return Reject(Precondition, "%s: the role of volume %s is moving to site %s", action, v.ID, r.Move.To)
	case r != nil && !r.Promoted:
		return Reject(Precondition, "%s: volume %s is demoted at both its sites: promote it at one of them first", action, v.ID)
	case at.serves(v.Home):
		return nil
	}
	return Reject(Precondition, "%s: volume %s is at home at site %s, and is changed through an endpoint of that site only", action, v.ID, v.Home)
}

// checkOwner refuses to change or use a snapshot of another site.
func (e endpoint) checkOwner(action string, site Site) *Rejection {
	if e.serves(site) {
		return nil
	}
	return Reject(Precondition, "%s: it belongs to site %s", action, site)
}

// concerns tells whether something of a host is meant by a call: the host that is named, or all of the
// endpoint's site (S36).
func (s *State) concerns(at endpoint, asked, node NodeID) bool {
	return (asked == "" || asked == node) && (!at.named || at.serves(s.siteOf(node)))
}

// homeVolume finds a volume that is Ready, for a call that changes it or copies its content.
func (s *State) homeVolume(at endpoint, action, id string) (*Volume, *Rejection) {
	v, rej := s.readyVolume(id)
	if rej == nil {
		rej = s.checkHome(at, action, v)
	}
	if rej != nil {
		return nil, rej
	}
	return v, nil
}

// checkSourceSite refuses to copy what is not the endpoint's (S29).
func (s *State) checkSourceSite(at endpoint, v *Volume) *Rejection {
	if source, ok := s.Volume(v.Source.Volume); ok {
		return s.checkHome(at, "create a clone", source)
	}
	if snap, ok := s.Snapshot(v.Source.Snapshot); ok {
		return at.checkOwner("create a volume from snapshot "+string(snap.ID), snap.Origin)
	}
	return nil
}

// requestedSites reads at which two sites the replicas are to be, sorted; none: both at the endpoint's.
func (e endpoint) requestedSites(c *fsmpb.CreateVolume) ([]Site, *Rejection) {
	if len(c.GetSites()) == 0 {
		return nil, nil
	}
	for _, name := range c.GetSites() {
		if rej := CheckSite(name); rej != nil {
			return nil, rej
		}
	}
	sites := sitesFrom(c.GetSites())
	slices.Sort(sites)
	switch {
	case len(sites) != MaxReplicas || sites[0] == sites[1]:
		return nil, Reject(Invalid, "create volume %q: its replicas can be at %d different sites", clip(c.GetName()), MaxReplicas)
	case c.GetReplicas() != MaxReplicas:
		return nil, Reject(Invalid, "create volume %q: with a replica at each of two sites it has %d replicas", clip(c.GetName()), MaxReplicas)
	case !slices.Contains(sites, e.site):
		return nil, Reject(Invalid, "create volume %q: one of its replicas must be at site %s, through which it is created", clip(c.GetName()), e.site)
	}
	return sites, nil
}

// siteOfOther is where the other replica is to be: at the other one of the volume's sites, or at the
// same. At level 1 it may be anywhere.
func (s *State) siteOfOther(v *Volume, first NodeID) endpoint {
	at := endpoint{site: s.siteOf(first), named: s.level2()}
	if len(v.Sites) > 0 {
		i := slices.IndexFunc(v.Sites, func(site Site) bool { return site != at.site })
		at.site = v.Sites[i]
	}
	return at
}

// checkSites: a volume with two sites has no two replicas at one, and is at home at one of them (S35).
func (s *State) checkSites() error {
	for v := range s.Volumes("") {
		if len(v.Sites) == 0 {
			continue
		}
		if len(v.Sites) != MaxReplicas || v.Sites[0] >= v.Sites[1] || !slices.Contains(v.Sites, v.Home) {
			return violated("S35", "volume %s is at home at site %s and has the sites %v", v.ID, v.Home, v.Sites)
		}
		active := v.ActiveReplicas()
		for i := 1; i < len(active); i++ {
			if s.siteOf(active[i].Node) == s.siteOf(active[i-1].Node) {
				return violated("S32", "volume %s has two replicas at site %s", v.ID, s.siteOf(active[i].Node))
			}
		}
	}
	return nil
}
