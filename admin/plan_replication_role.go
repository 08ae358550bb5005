package admin

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// promote gives the role to the site.
func (x *replicationPlan) promote() error {
	detail := fmt.Sprintf("site %s becomes primary of %s", x.site, CountOf(len(x.members), "volume"))
	changes := !x.isPrimary() && (x.relation == nil || x.relation.Move == nil || x.relation.Move.To != x.site)
	if !changes {
		detail = fmt.Sprintf("site %s has the role, or is getting it", x.site)
	}
	out, rej := x.try(step{action: promoteSite, detail: detail}, x.promoteCommand(x.req.GetForce()), changes)
	if rej != nil {
		x.previewForce(rej)
		return nil
	}
	for _, v := range x.members {
		x.addPromoted(v, changes)
	}
	x.addGivenUp(out.GetGivenUp(), stepFollows, "")
	if !changes {
		x.addGivenUpBefore()
	}
	x.await("sever", x.state.PromoteHolds)
	return nil
}

func (x *replicationPlan) promoteCommand(force bool) *fsmpb.Command {
	cmd := x.command()
	cmd.Body = &fsmpb.Command_PromoteReplication{PromoteReplication: &fsmpb.PromoteReplication{
		Source: x.source, Role: x.role, Force: force, Separately: force && x.req.GetSeparately(), Reason: x.req.GetReason()}}
	return cmd
}

// previewForce shows what force would give up, where it is what the site needs.
func (x *replicationPlan) previewForce(rej *fsm.Rejection) {
	if rej.Reason != fsm.NeedsForce || x.req.GetForce() {
		return
	}
	out, err := x.tryCommand(x.promoteCommand(true))
	if err != nil {
		x.add(step{action: "force", state: stepBlocked, detail: "--force is refused: " + err.Error()})
		return
	}
	x.addGivenUp(out.GetGivenUp(), stepBlocked, "with --force: ")
}

// addPromoted adds what becomes of the other site's hosts.
func (x *replicationPlan) addPromoted(before *fsm.Volume, changes bool) {
	after, state := x.now(before), stepFollows
	if !changes {
		state = stepWaiting
	}
	for _, pub := range before.Publications() {
		if x.siteOf(pub.Node) != x.site && publicationOn(after, x.node(pub.Node)) == nil {
			x.add(step{action: "end", state: state, volume: before, node: pub.Node, detail: "its publication here ends"})
		}
	}
	for _, t := range after.Teardowns {
		if x.siteOf(t.Node) == x.other() {
			x.add(step{action: "cut", state: state, volume: before, node: t.Node, detail: "its peer disconnects from this host by force; what it still writes then is acknowledged by it alone"})
		}
	}
	if m := after.RelationMember; changes && m != nil && m.Apart {
		x.add(step{action: "set-apart", state: state, volume: before, node: x.nodeAt(after, m.ApartAt),
			detail: fmt.Sprintf("its replica here stays as it is, disconnected, until a resync with --force at site %s", m.ApartAt)})
	}
}

func (x *replicationPlan) node(id fsm.NodeID) *fsm.Node {
	if n, ok := x.state.Node(id); ok {
		return n
	}
	return &fsm.Node{ID: id}
}

func (x *replicationPlan) nodeAt(v *fsm.Volume, site fsm.Site) fsm.NodeID {
	if r := x.replicaAt(v, site); r != nil {
		return r.Node
	}
	return ""
}

// addGivenUp adds what a forced promotion gives up of each volume.
func (x *replicationPlan) addGivenUp(all []*fsmpb.GivenUp, state, prefix string) {
	for _, g := range all {
		v, _ := x.state.Volume(fsm.VolumeID(g.GetVolumeId()))
		x.add(step{action: "give-up", state: state, volume: v, detail: fmt.Sprintf("%s%s; how much that is cannot be known while no host of site %s can be asked", prefix, givenUpText(g), x.other())})
	}
}

// addGivenUpBefore says of a promotion that was done what it gave up.
func (x *replicationPlan) addGivenUpBefore() {
	for _, v := range x.members {
		m := x.now(v).RelationMember
		if m == nil || m.GivenUp == nil || m.GivenUp.Index != x.relation.Role {
			continue
		}
		g := &fsmpb.GivenUp{VolumeId: string(v.ID), Generation: m.GivenUp.Generation, RevertedTo: string(m.GivenUp.RevertedTo)}
		if !m.GivenUp.Since.IsZero() {
			g.SinceUnixNano = m.GivenUp.Since.UnixNano()
		}
		x.add(step{action: "give-up", state: stepDone, volume: v, detail: givenUpText(g)})
	}
}

// givenUpText says what a forced promotion gives up of a volume.
func givenUpText(g *fsmpb.GivenUp) string {
	since := "since a time that is not known"
	if g.GetSinceUnixNano() != 0 {
		since = "since " + timeView(fsm.TimeOf(g.GetSinceUnixNano()))
	}
	text := fmt.Sprintf("writes that were acknowledged in generation %d, %s, may be lost", g.GetGeneration(), since)
	if g.GetRevertedTo() != "" {
		text += "; the replica goes back to kept copy " + g.GetRevertedTo()
	}
	return text
}

// demote ends the role of the site, or has it accept that it lost it.
func (x *replicationPlan) demote() error {
	cmd, t := x.command(), step{action: demoteSite}
	cmd.Body = &fsmpb.Command_DemoteReplication{DemoteReplication: &fsmpb.DemoteReplication{Source: x.source, Role: x.role}}
	switch {
	case x.isPrimary():
		t.detail = fmt.Sprintf("site %s gives up the role; nobody is primary until a site is promoted, and no data are given up", x.site)
	case x.ousted() != nil:
		t.detail = fmt.Sprintf("site %s accepts that it lost the role, and may be promoted again", x.site)
	default:
		t.detail = fmt.Sprintf("site %s is not primary", x.site)
	}
	if _, rej := x.try(t, cmd, x.isPrimary() || x.ousted() != nil); rej == nil {
		x.await("end", x.state.DemoteHolds)
	}
	return nil
}

// resync lets the replicas of the site take part again.
func (x *replicationPlan) resync() error {
	apart := x.apart()
	force := x.req.GetForce()
	cmd, t := x.command(), step{action: resyncSite, detail: fmt.Sprintf("the replicas at site %s take part; which side has everything is what the log says", x.site)}
	cmd.Body = &fsmpb.Command_ResyncReplication{ResyncReplication: &fsmpb.ResyncReplication{
		Source: x.source, Role: x.role, Force: force, DiscardUnkept: x.req.GetDiscardUnkept()}}
	if _, rej := x.try(t, cmd, x.ousted() != nil || force && len(apart) > 0); rej != nil {
		return nil
	}
	for _, v := range apart {
		x.addDiscard(v)
	}
	if len(apart) == 0 || force {
		x.await("synchronise", x.state.ResyncReady)
	}
	return nil
}

// apart are the members whose replica at the site was given up by force.
func (x *replicationPlan) apart() (apart []*fsm.Volume) {
	for _, v := range x.members {
		if m := v.RelationMember; m != nil && m.Apart && m.ApartAt == x.site {
			apart = append(apart, v)
		}
	}
	return apart
}

// addDiscard says what becomes of a replica that was given up by force.
func (x *replicationPlan) addDiscard(v *fsm.Volume) {
	t := step{action: "discard", state: stepBlocked, volume: v, node: x.nodeAt(v, x.site),
		detail: "what it has was given up by force and may be the newer content: it stays as it is until --force"}
	if x.req.GetForce() {
		t.state, t.detail = stepFollows, "what it has is kept in a snapshot of its pool, then discarded and copied from the other site; without room for that it waits"
		if x.req.GetDiscardUnkept() || x.relation.DiscardUnkept {
			t.detail = "WHAT IT HAS IS DISCARDED, also where it cannot be kept, and copied from the other site"
		}
	}
	x.add(t)
}
