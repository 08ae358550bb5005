package sim

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// The sites of a seed that has two: hosts and controllers are at each in turn.
const (
	siteA = fsm.Site("A")
	siteB = fsm.Site("B")
)

// siteNames are the sites that there are.
func (s *Sim) siteNames() []fsm.Site {
	if s.options.sites {
		return []fsm.Site{siteA, siteB}
	}
	return []fsm.Site{""}
}

// site is where the host or the controller of a number, from 1, is.
func (s *Sim) site(number int) fsm.Site {
	if !s.options.sites {
		return ""
	}
	return s.siteNames()[(number-1)%2]
}

func (h *host) site() fsm.Site { return h.s.site(h.number) }

func (m *member) site() fsm.Site {
	number := 0
	_, _ = fmt.Sscanf(m.name, "c%d", &number)
	return m.s.site(number)
}

// Site is the one whose orchestrator calls this controller.
func (m *member) Site() string { return m.site().String() }

// hostsAt are the hosts of a site.
func (s *Sim) hostsAt(site fsm.Site) (all []*host) {
	for _, h := range s.hosts {
		if h.site() == site {
			all = append(all, h)
		}
	}
	return all
}

// membersAt are the controllers of a site.
func (s *Sim) membersAt(site fsm.Site) (all []*member) {
	for _, m := range s.members {
		if m.site() == site {
			all = append(all, m)
		}
	}
	return all
}

// nameSites records for which site each controller acts.
func (s *Sim) nameSites() {
	for _, name := range s.memberNames {
		m := &member{s: s, name: name}
		s.log.append(&fsmpb.Command{RequestId: s.requestID(), Actor: "controller/" + name, Body: &fsmpb.Command_RegisterMember{RegisterMember: &fsmpb.RegisterMember{
			Name: name, MemberId: name, Site: m.Site(),
		}}})
	}
}

// hosts are those on which the claim can be used: of its site, or of both where it has a replica at each.
func (c *claim) hosts() []*host {
	if c.metro || c.relation() != nil {
		return c.s.hosts
	}
	return c.s.hostsAt(c.site)
}

// volume is the claim's in the log, while there is one that is not being deleted.
func (c *claim) volume() (*fsm.Volume, bool) { return c.s.log.state.VolumeByName(c.site, c.name) }

// addTwins gives each site a claim of each name, and one volume with a replica at each site.
func (c *clients) addTwins() {
	twins := map[*claim]*claim{nil: nil}
	for _, one := range c.claims {
		one.site = siteA
		twin := *one
		twin.site, twin.source = siteB, twins[one.source]
		if one.keys != nil {
			own := *one.keys
			twin.keys = &own
		}
		twins[one] = &twin
		one.twin = &twin
	}
	for _, one := range c.claims {
		c.claims = append(c.claims, one.twin)
	}
	metro := &claim{s: c.s, name: "metro", replicas: "2", fsType: "ext4", size: 64 << 20, site: siteA, metro: true}
	twin := *metro
	twin.site, metro.twin = siteB, &twin
	c.claims = append(c.claims, metro, metro.twin)
	if c.s.options.roles {
		c.addRoles(metro)
	}
}

// withRoles are the claims that are replicated between sites: much is to happen to each.
func (c *clients) withRoles() map[*claim]bool {
	kept := map[*claim]bool{}
	for _, one := range c.claims {
		if one.roles != nil {
			kept[one] = true
		}
	}
	return kept
}

// addRoles has the volume of two sites replicated between them, and one that is not replicated before.
func (c *clients) addRoles(metro *claim) {
	metro.roles = newRoles(metro)
	plain := &claim{s: c.s, name: "plain", replicas: "1", fsType: "ext4", size: 64 << 20, site: siteA}
	plain.roles = newRoles(plain)
	c.claims = append(c.claims, plain)
	if c.s.options.groups {
		plain.roles = metro.roles
		metro.roles.group = &volumeGroup{s: c.s, members: []*claim{metro, plain}}
	}
}

// keepTwins has both sites use the names that are used.
func keepTwins(kept map[*claim]bool) {
	var twins []*claim
	for one := range kept {
		if one != nil && one.twin != nil {
			twins = append(twins, one.twin)
		}
	}
	for _, twin := range twins {
		kept[twin] = true
	}
}

// through has a call made at the endpoint of a site.
func (call *csiCall) through(site fsm.Site) *csiCall {
	call.site = site
	return call
}

// misroute has some calls made at the endpoint of the other site, as a sidecar does that is wired to the wrong socket. What it
// would make there is another volume, which is what that site's own claim is for.
func (c *clients) misroute(call *csiCall) {
	if !c.s.options.sites || call.fixed || call.host != nil || call.claim == nil || call.kind() == "create" || !c.s.tape.oneIn(4) {
		return
	}
	for _, site := range c.s.siteNames() {
		if site != call.site {
			c.s.counts["call at the other site"]++
			call.name += " through " + string(site)
			call.site, call.misrouted = site, true
			return
		}
	}
}
