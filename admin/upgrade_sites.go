package admin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
)

// nodeSites are the nodes of each site, by its name. Below feature level 2 sites mean nothing, so that nobody may
// have noticed that one is wrong.
type nodeSites map[string][]string

func (s nodeSites) add(n *fsm.Node) {
	site := fsm.SiteFrom(n.Site).String()
	s[site] = append(s[site], string(n.ID))
}

// warnings say which nodes no controller acts for and which controllers have no node, in order of sites. While a
// member does not say its site nothing is known.
func (s nodeSites) warnings(members []Member) (all []string) {
	controllers := map[string][]string{}
	for i := range members {
		m := &members[i]
		if m.Err != nil || m.Site == "" {
			return nil
		}
		controllers[m.Site] = append(controllers[m.Site], m.Name)
	}
	for _, site := range slices.Sorted(maps.Keys(s)) {
		switch rej := fsm.CheckSite(site); {
		case rej != nil:
			all = append(all, fmt.Sprintf("%s registered with what is no name of a site: from feature level 2 on that is refused at their next start (%s)", nodeList(s[site]), rej.Message))
		case len(controllers[site]) == 0:
			all = append(all, fmt.Sprintf("%s registered at site %s, for which no controller acts: from feature level 2 on no endpoint serves them; give them another --site, or start a controller with --site=%s", nodeList(s[site]), site, site))
		}
	}
	for _, site := range slices.Sorted(maps.Keys(controllers)) {
		if len(s) > 0 && len(s[site]) == 0 {
			slices.Sort(controllers[site])
			all = append(all, fmt.Sprintf("controller %s acts for site %s, where no node is: from feature level 2 on its endpoint has no host to make volumes on", strings.Join(controllers[site], ", "), site))
		}
	}
	return all
}

// maxNamedNodes is how many nodes a warning names.
const maxNamedNodes = 5

func nodeList(ids []string) string {
	if n := len(ids); n > maxNamedNodes {
		return fmt.Sprintf("node %s and %d more", strings.Join(ids[:maxNamedNodes], ", "), n-maxNamedNodes)
	}
	return "node " + strings.Join(ids, ", ")
}
