package fsm

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// DefaultSite is the site of endpoints and hosts that name none.
const DefaultSite = "default"

// maxSiteBytes bounds the name of a site.
const maxSiteBytes = 63

// Site is one orchestrator's world: its endpoints and its hosts. The zero one is DefaultSite. A zone
// is a failure domain inside a site.
type Site string

// SiteFrom reads a site's name; an empty one is DefaultSite.
func SiteFrom(name string) Site {
	if name == DefaultSite {
		return ""
	}
	return Site(name)
}

// String is the site's name.
func (s Site) String() string { return cmp.Or(string(s), DefaultSite) }

// CheckSite refuses what is no name of a site.
func CheckSite(name string) *Rejection {
	valid := name != "" && len(name) <= maxSiteBytes && strings.Trim(name, "-._") == name && !strings.ContainsFunc(name, isNoSiteRune)
	if !valid {
		return Reject(Invalid, "%q is no name of a site: it has 1 to %d letters, digits, '-', '_' and '.', and begins and ends with a letter or digit", clip(name), maxSiteBytes)
	}
	return nil
}

func isNoSiteRune(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
}

// endpoint is where a command came in: through a site's, or from an operator or a controller itself,
// whom sites do not bind.
type endpoint struct {
	site  Site
	named bool
}

// endpointOf is where the command came in; at level 1 no command says it.
func (s *State) endpointOf(cmd *fsmpb.Command) endpoint {
	if !s.level2() || cmd.GetSite() == "" {
		return endpoint{}
	}
	return endpoint{site: SiteFrom(cmd.GetSite()), named: true}
}

// siteName is the site's name, empty where none is named.
func (e endpoint) siteName() string {
	if !e.named {
		return ""
	}
	return e.site.String()
}

// serves tells whether a host of that site exists for the endpoint (S36).
func (e endpoint) serves(site Site) bool { return !e.named || e.site == site }

// siteOf is the site of a host; that of one that is not known is DefaultSite.
func (s *State) siteOf(id NodeID) Site {
	n, _ := s.Node(id)
	return n.site()
}

func (n *Node) site() Site {
	if n == nil {
		return ""
	}
	return SiteFrom(n.Site)
}

// Sites are the sites of hosts and controllers, sorted; DefaultSite comes first.
func (s *State) Sites() []Site {
	all := []Site{""}
	for n := range s.Nodes() {
		all = append(all, n.site())
	}
	for i := range s.cluster.Members {
		all = append(all, s.cluster.Members[i].Site)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func siteNames(sites []Site) (names []string) {
	for _, s := range sites {
		names = append(names, s.String())
	}
	return names
}

func sitesFrom(names []string) (sites []Site) {
	for _, name := range names {
		sites = append(sites, SiteFrom(name))
	}
	return sites
}

func hashOrigin(e *encoder, origin Site) {
	if origin != "" {
		e.u64(fieldOrigin)
		e.str(string(origin))
	}
}

// fieldOrigin is the number behind which a snapshot or a group snapshot hashes its site. It is like no
// number of what may come before it in these records.
const fieldOrigin = 1 << 20
