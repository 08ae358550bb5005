package admin

import (
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// lost: an operator attests that a host and its data are gone for good.
func (p *planner) lost() error {
	n, _ := p.state.Node(p.node())
	switch done := p.lostAlready(n); {
	case done != "":
		p.add(step{action: "lose", state: stepDone, detail: done})
	case p.spared(n):
		p.add(step{action: "lose", state: stepBlocked, detail: p.spare(n)})
	default:
		p.lose(n)
	}
	return nil
}

// lostAlready says why there is nothing to lose any more; empty when there is.
func (p *planner) lostAlready(n *fsm.Node) string {
	switch {
	case n.Host != p.host:
		return fmt.Sprintf("the node is host %s, not %s any more", n.Host, p.host)
	case n.State == fsm.NodeLost:
		return "the host is recorded as lost"
	}
	return ""
}

// spared: a host that can be reached is the one that was to replace another, or one that
// nobody meant. It is lost only where that is said (S71).
func (p *planner) spared(n *fsm.Node) bool {
	return n.State == fsm.NodeReachable && !p.req.GetEvenIfReachable()
}

func (p *planner) spare(n *fsm.Node) string {
	return fmt.Sprintf("host %s can be reached now: nothing is lost; stop it first, or say --even-if-reachable", n.Host)
}

// replace: lost, and replicated volumes get replicas elsewhere, or on the host that
// takes the name.
func (p *planner) replace() error {
	n, _ := p.state.Node(p.node())
	switch done := p.lostAlready(n); {
	case done != "":
		p.add(step{action: "lose", state: stepDone, detail: done})
	case p.spared(n):
		p.add(step{action: "lose", state: stepDone, detail: p.spare(n)})
	default:
		if !p.lose(n) {
			return nil
		}
	}
	p.addLacking()
	return nil
}

// lose is the step that loses the host, and what follows for each volume of which it
// kept something.
func (p *planner) lose(n *fsm.Node) bool {
	volumes, snapshots := p.volumes(), p.snapshotsKept()
	cmd := &fsmpb.Command{Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{
		NodeId: string(n.ID), HostId: string(p.host), Reason: p.req.GetReason(),
	}}}
	detail := fmt.Sprintf("host %s and its data are recorded as gone for good: its publications and obligations end", p.host)
	if n.State == fsm.NodeReachable {
		detail += "; IT CAN BE REACHED NOW"
	}
	if !p.try(step{action: "lose", detail: detail}, cmd) {
		return false
	}
	p.bereft = volumes
	for _, v := range volumes {
		if !p.enough(stepFollows) {
			p.add(step{action: "volume", state: stepFollows, volume: v, detail: p.without(v)})
		}
	}
	if snapshots > 0 {
		p.add(step{action: "snapshots", state: stepFollows, detail: fmt.Sprintf("%d snapshots that it kept are lost", snapshots)})
	}
	return true
}

// without says what a volume is without the host.
func (p *planner) without(v *fsm.Volume) string {
	what := ""
	if published(v, p.node()) {
		what = "its publication here ends; "
	}
	other, leg := p.other(v)
	back := p.takenBack(v)
	switch {
	case v.Replica(p.host) == nil:
		return what + "the host owes nothing of it any more"
	case other == nil && back != "":
		return fmt.Sprintf("%sits last replica that is up to date is here; the one on %s, which was given up and is not reported removed, "+
			"stays and is outdated: it goes on by `holdfast volumes force-primary` only, without the writes since it was given up", what, back)
	case other == nil:
		return what + "its last replica is here: ITS DATA ARE LOST"
	case leg.UpToDate:
		return fmt.Sprintf("%sit goes on with its replica on %s, which is up to date", what, other.Node)
	}
	return fmt.Sprintf("%sits replica on %s is not up to date by the log (%s): it may need `holdfast volumes force-primary`", what, other.Node, diskView(leg.Observed.Disk))
}

// takenBack is the node whose replica was given up, and is a side of the volume again
// now that the host is lost; empty when there is none.
func (p *planner) takenBack(v *fsm.Volume) fsm.NodeID {
	if !slices.ContainsFunc(v.Replicas, func(r fsm.Replica) bool { return r.State == fsm.ReplicaLeaving }) {
		return ""
	}
	now, ok := p.state.Volume(v.ID)
	if !ok {
		return ""
	}
	for _, r := range v.Replicas {
		if r.State == fsm.ReplicaLeaving && now.ReplicaSync(r.Host) != nil {
			return r.Node
		}
	}
	return ""
}

// snapshotsKept is how many snapshots the host keeps.
func (p *planner) snapshotsKept() (n int) {
	for s := range p.state.SnapshotsOn(p.node()) {
		if s.Host == p.host && s.Phase != fsm.SnapshotFailed {
			n++
		}
	}
	return n
}

// copiesKept is how many of them are copies of what replicas had that lost.
func (p *planner) copiesKept() (n int) {
	for s := range p.state.SnapshotsOn(p.node()) {
		if s.Host == p.host && s.KeptCopy != nil {
			n++
		}
	}
	return n
}

// forcePrimary: an operator's decision that a replica goes on although the log cannot
// know that it has every acknowledged write (S8, S11).
func (p *planner) forcePrimary() error {
	v := findVolume(p.state, p.req.GetVolume())
	switch {
	case v == nil:
		return fsm.Reject(fsm.NotFound, "no volume has the id or name %q", p.req.GetVolume())
	case v.Replication == nil:
		return fsm.Reject(fsm.Precondition, "volume %s is not replicated: there is nothing to force", v.ID)
	}
	if n, _ := p.state.Node(p.node()); n.Host != p.host {
		return p.otherHost(n)
	}
	leg, r := v.ReplicaSync(p.host), v.Replica(p.host)
	if r != nil && r.State == fsm.ReplicaLeaving && len(v.Replication.Syncs) == 0 {
		leg = &fsm.ReplicaSync{Host: p.host, Outdated: true} // given up, and the only one that is left
	}
	if r == nil || leg == nil {
		return fsm.Reject(fsm.Precondition, "volume %s has no replica on node %s", v.ID, p.node())
	}
	cmd := &fsmpb.Command{Body: &fsmpb.Command_ForcePrimary{ForcePrimary: &fsmpb.ForcePrimary{
		VolumeId: string(v.ID), NodeId: string(p.node()), Reason: p.req.GetReason(), PeerDead: p.req.GetPeerDead(),
	}}}
	if f := v.Replication.Forced; f != nil && f.Host == p.host {
		p.add(step{action: "force-primary", state: stepDone, volume: v, detail: fmt.Sprintf("it was decided at index %d; publish the volume on %s", f.Index, p.node())})
		return nil
	}
	if !p.try(step{action: "force-primary", volume: v, detail: p.stake(v, leg)}, cmd) {
		return nil
	}
	p.afterForce(v)
	return nil
}

// stake says what may be lost.
func (p *planner) stake(v *fsm.Volume, leg *fsm.ReplicaSync) string {
	if leg.UpToDate && !leg.Outdated {
		return fmt.Sprintf("the log has this replica as up to date in generation %d: nothing may need to be forced; try to publish it first", v.Replication.Generation)
	}
	return fmt.Sprintf("WRITES ACKNOWLEDGED IN GENERATION %d MAY BE LOST: this replica is %s by the log, %s as its host last said; what it has becomes the volume's content",
		v.Replication.Generation, logCell(&adminpb.Replica{Outdated: leg.Outdated, UpToDate: leg.UpToDate}), diskView(leg.Observed.Disk))
}

func (p *planner) afterForce(v *fsm.Volume) {
	if other, _ := p.other(v); other != nil {
		p.add(step{action: "replica", state: stepFollows, volume: v, node: other.Node,
			detail: "when the volume is published, this replica is recorded as outdated: its host tears it down, keeps a snapshot of it, and synchronises it wholly"})
	}
	p.add(step{action: "publish", state: stepFollows, volume: v,
		detail: "the decision counts for the next publication on this node, once, and is kept in the history"})
}
