package sim

import (
	"reflect"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// siteChecks judges what one site's endpoint does to volumes that are at home at the other.
type siteChecks struct{ s *Sim }

// judge looks at the volumes of other sites before a command, and returns what looks at them afterwards.
func (c *siteChecks) judge(cmd *fsmpb.Command) func(*fsmpb.Outcome) {
	if !c.s.options.sites || cmd.GetSite() == "" || !strings.HasPrefix(cmd.GetActor(), "controller/") {
		return func(*fsmpb.Outcome) {}
	}
	site, before := fsm.SiteFrom(cmd.GetSite()), map[fsm.VolumeID]fsm.Volume{}
	for v := range c.s.log.state.Volumes("") {
		if v.Home != site {
			before[v.ID] = *v
		}
	}
	return func(*fsmpb.Outcome) {
		for id, old := range before {
			if now, ok := c.s.log.state.Volume(id); !ok || !reflect.DeepEqual(*now, old) {
				c.changed(cmd, site, &old, now)
			}
		}
	}
}

// changed judges what became of a volume of another site: nothing but that this site publishes it to a host of its own
// while nobody has it (S35), or ends what its own hosts have of it (S36).
func (c *siteChecks) changed(cmd *fsmpb.Command, site fsm.Site, old, now *fsm.Volume) {
	c.s.counts["volumes of another site that changed"]++
	allowed := false
	switch {
	case now == nil:
	case cmd.GetPublishVolume() != nil:
		allowed = now.Home == site && len(c.publishedAt(old, old.Home)) == 0
	case c.isRoleCommand(cmd), cmd.GetCreateVolumeGroup() != nil, cmd.GetModifyVolumeGroup() != nil, c.s.log.state.RelationOf(old) != nil && cmd.GetDeleteVolume() != nil:
		allowed = sameData(old, now)
	case cmd.GetUnpublishVolume() != nil:
		allowed = now.Home == old.Home && reflect.DeepEqual(c.publishedAt(old, old.Home), c.publishedAt(now, old.Home))
	}
	if !allowed {
		c.s.fail("sites: %s at the endpoint of %s changed %s (%s), which is at home at %s", commandName(cmd), site, old.Name, old.ID, old.Home)
	}
}

// publishedAt are the publications to hosts of a site.
func (c *siteChecks) publishedAt(v *fsm.Volume, site fsm.Site) (all []fsm.Publication) {
	for _, p := range v.Publications() {
		if h := c.s.hostNamed(string(p.Node)); h != nil && h.site() == site {
			all = append(all, p)
		}
	}
	return all
}

// answered judges an answer to a caller. Of another site it knows volumes by their ids, and no hosts at all.
func (c *siteChecks) answered(call *csiCall, err error) {
	if !call.misrouted {
		return
	}
	switch code := status.Code(err); {
	case call.kind() == "get" && code == codes.NotFound:
		if _, ok := c.s.log.state.Volume(fsm.VolumeID(call.volume)); ok {
			c.s.fail("sites: %s was answered %v, and there is the volume", call.name, err)
		}
	case call.kind() == "publish" && code == codes.OK:
		c.s.fail("sites: %s succeeded, and the host is not at that site", call.name)
	}
}

// made judges the answer to a creation: the volume is of the caller's own site (S33).
func (c *siteChecks) made(claim *claim) {
	if v, ok := c.s.log.state.Volume(fsm.VolumeID(claim.id)); ok && v.Origin != claim.site {
		c.s.fail("sites: %s of %s was given %s, which is of %s", claim.name, claim.site, v.ID, v.Origin)
	}
}

// deleted judges the answer that a volume is gone.
func (c *siteChecks) deleted(claim *claim, id string) {
	if v, ok := c.s.log.state.Volume(fsm.VolumeID(id)); ok {
		if _, ready := v.Phase.(fsm.Ready); ready {
			c.s.fail("sites: the deletion of %s was answered, and %s is there", claim.name, id)
		}
	}
}

// listed judges the hosts that a list names: those of the endpoint's site only (S29).
func (c *siteChecks) listed(m *member, nodes []string) {
	for _, name := range nodes {
		if h := c.s.hostNamed(name); h != nil && h.site() != m.site() {
			c.s.fail("sites: a list at the endpoint of %s names %s", m.site(), name)
		}
	}
}

// isRoleCommand: a command about roles is about volumes of both sites.
func (c *siteChecks) isRoleCommand(cmd *fsmpb.Command) bool {
	return cmd.GetEnableReplication() != nil || cmd.GetDisableReplication() != nil || cmd.GetPromoteReplication() != nil ||
		cmd.GetDemoteReplication() != nil || cmd.GetResyncReplication() != nil
}

// sameData: the volume has the size, the format and the replicas that it had (S37).
func sameData(old, now *fsm.Volume) bool {
	same := old.Size == now.Size && reflect.DeepEqual(old.Format, now.Format) && len(old.Replicas) <= len(now.Replicas)
	for i := range old.Replicas {
		same = same && old.Replicas[i].Host == now.Replicas[i].Host && old.Replicas[i].Pool == now.Replicas[i].Pool
	}
	return same
}
