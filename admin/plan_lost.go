package admin

import (
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// planLost records, as the operator attests, that a host and its data are permanently lost.
func (p *planner) planLost() error {
	n, _ := p.state.Node(p.nodeID())
	switch done := p.alreadyLost(n); {
	case done != "":
		p.add(step{action: "lose", state: stepDone, detail: done})
	case p.protected(n):
		p.add(step{action: "lose", state: stepBlocked, detail: protectedDetail(n)})
	default:
		p.addLose(n)
	}
	return nil
}

// alreadyLost says why there is nothing to record; empty when there is.
func (t *planTarget) alreadyLost(n *fsm.Node) string {
	switch {
	case n.Host != t.host:
		return fmt.Sprintf("the node is host %s, not %s any more", n.Host, t.host)
	case n.State == fsm.NodeLost:
		return "the host is recorded as lost"
	}
	return ""
}

// protected tells whether the host may not be recorded as lost, because it is reachable: it may be the
// successor of the lost one, or the operator may have named the wrong node. --even-if-reachable
// overrides it (S71).
func (t *planTarget) protected(n *fsm.Node) bool {
	return n.State == fsm.NodeReachable && !t.req.GetEvenIfReachable()
}

func protectedDetail(n *fsm.Node) string {
	return fmt.Sprintf("host %s can be reached now: nothing is lost; stop it first, or say --even-if-reachable", n.Host)
}

// planReplace records the host as lost, and adds replicas of its replicated volumes on other nodes, or
// on the host that registers under the node's id next.
func (p *planner) planReplace() error {
	n, _ := p.state.Node(p.nodeID())
	switch done := p.alreadyLost(n); {
	case done != "":
		p.add(step{action: "lose", state: stepDone, detail: done})
	case p.protected(n):
		p.add(step{action: "lose", state: stepDone, detail: protectedDetail(n)})
	default:
		if !p.addLose(n) {
			return nil
		}
	}
	p.addMissingReplicas()
	return nil
}

// addLose adds the step that records the host as lost, and the consequences for each of its volumes.
// It returns whether the loss was accepted.
func (p *planner) addLose(n *fsm.Node) bool {
	volumes, snapshots := p.nodeVolumes(), p.snapshotCount()
	cmd := &fsmpb.Command{Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{
		NodeId: string(n.ID), HostId: string(p.host), Reason: p.req.GetReason(),
	}}}
	detail := fmt.Sprintf("host %s and its data are recorded as gone for good: its publications and obligations end", p.host)
	if n.State == fsm.NodeReachable {
		detail += "; IT CAN BE REACHED NOW"
	}
	if !p.addCommand(step{action: "lose", detail: detail}, cmd) {
		return false
	}
	p.volumesOfLostHost = volumes
	for _, v := range volumes {
		if !p.reachedListLimit(stepFollows) {
			p.add(step{action: "volume", state: stepFollows, volume: v, detail: p.lossDetail(v)})
		}
	}
	if snapshots > 0 {
		p.add(step{action: "snapshots", state: stepFollows, detail: fmt.Sprintf("%d snapshots that it kept are lost", snapshots)})
	}
	return true
}

// lossDetail says what the loss of the host means for a volume.
func (t *planTarget) lossDetail(v *fsm.Volume) string {
	what := ""
	if isPublished(v, t.nodeID()) {
		what = "its publication here ends; "
	}
	other := t.otherReplica(v)
	back := t.restoredReplica(v)
	switch {
	case v.Replica(t.host) == nil:
		return what + "the host owes nothing of it any more"
	case other == nil && back != "":
		return fmt.Sprintf("%sits last replica that is up to date is here; the one on %s, which was given up and is not reported removed, "+
			"stays and is outdated: it goes on by `holdfast volumes force-primary` only, without the writes since it was given up", what, back)
	case other == nil && v.Replication == nil && t.hasUnadoptedHost():
		return what + "its only replica that this log knows is here: ITS DATA ARE LOST, unless it was replicated after the backup: `holdfast adopt` takes it in from a host that has it then"
	case other == nil:
		return what + "its last replica is here: ITS DATA ARE LOST"
	case other.UpToDate:
		return fmt.Sprintf("%sit goes on with its replica on %s, which is up to date", what, other.Node)
	}
	return fmt.Sprintf("%sits replica on %s is not up to date by the log (%s): it may need `holdfast volumes force-primary`", what, other.Node, diskView(other.Observed.Disk))
}

// hasUnadoptedHost tells whether another host may hold what a lost log said last: it is in adoption mode.
func (t *planTarget) hasUnadoptedHost() bool {
	for n := range t.state.Nodes() {
		if n.ID != t.nodeID() && n.State != fsm.NodeLost && n.Incarnation != t.state.Cluster().Incarnation {
			return true
		}
	}
	return false
}

// restoredReplica returns the node of a replica that was being removed and that counts as one of the
// volume's replicas again now that the host is lost; empty when there is none.
func (t *planTarget) restoredReplica(v *fsm.Volume) fsm.NodeID {
	if !slices.ContainsFunc(v.Replicas, func(r fsm.Replica) bool { return r.State == fsm.ReplicaLeaving }) {
		return ""
	}
	now, ok := t.state.Volume(v.ID)
	if !ok {
		return ""
	}
	for _, r := range v.Replicas {
		if r.State == fsm.ReplicaLeaving && now.ActiveReplica(r.Host) != nil {
			return r.Node
		}
	}
	return ""
}

// snapshotCount returns how many snapshots the host has, kept copies among them.
func (t *planTarget) snapshotCount() (n int) {
	for s := range t.state.SnapshotsOn(t.nodeID()) {
		if s.Host == t.host && s.Phase != fsm.SnapshotFailed {
			n++
		}
	}
	return n
}

// keptCopyCount returns how many of these snapshots are kept copies.
func (t *planTarget) keptCopyCount() (n int) {
	for s := range t.state.SnapshotsOn(t.nodeID()) {
		if s.Host == t.host && s.KeptCopy != nil {
			n++
		}
	}
	return n
}

// planForcePrimary lets a replica become primary by an operator's decision, although the log does not
// know that it has every acknowledged write (S8, S11).
func (p *planner) planForcePrimary() error {
	v := findVolume(p.state, p.req.GetVolume())
	switch {
	case v == nil:
		return fsm.Reject(fsm.NotFound, "no volume has the id or name %q", p.req.GetVolume())
	case v.Replication == nil:
		return fsm.Reject(fsm.Precondition, "volume %s is not replicated: there is nothing to force", v.ID)
	}
	if n, _ := p.state.Node(p.nodeID()); n.Host != p.host {
		return p.wrongHost(n)
	}
	replica, r := v.ActiveReplica(p.host), v.Replica(p.host)
	if r != nil && r.State == fsm.ReplicaLeaving && len(v.ActiveReplicas()) == 0 {
		replica = &fsm.Replica{Host: p.host, ReplicaSync: &fsm.ReplicaSync{Outdated: true}} // it was being removed, and no other is left
	}
	if r == nil || replica == nil {
		return fsm.Reject(fsm.Precondition, "volume %s has no replica on node %s", v.ID, p.nodeID())
	}
	cmd := &fsmpb.Command{Body: &fsmpb.Command_ForcePrimary{ForcePrimary: &fsmpb.ForcePrimary{
		VolumeId: string(v.ID), NodeId: string(p.nodeID()), Reason: p.req.GetReason(), PeerDead: p.req.GetPeerDead(),
	}}}
	if f := v.Replication.Forced; f != nil && f.Host == p.host {
		p.add(step{action: "force-primary", state: stepDone, volume: v, detail: fmt.Sprintf("it was decided at index %d; publish the volume on %s", f.Index, p.nodeID())})
		return nil
	}
	if !p.addCommand(step{action: "force-primary", volume: v, detail: riskDetail(v, replica)}, cmd) {
		return nil
	}
	p.addForceConsequences(v)
	return nil
}

// riskDetail says which acknowledged writes may be lost.
func riskDetail(v *fsm.Volume, replica *fsm.Replica) string {
	if replica.UpToDate && !replica.Outdated {
		return fmt.Sprintf("the log has this replica as up to date in generation %d: nothing may need to be forced; try to publish it first", v.Replication.Generation)
	}
	return fmt.Sprintf("WRITES ACKNOWLEDGED IN GENERATION %d MAY BE LOST: this replica is %s by the log, %s as its host last said; what it has becomes the volume's content",
		v.Replication.Generation, logCell(&adminpb.Replica{Outdated: replica.Outdated, UpToDate: replica.UpToDate}), diskView(replica.Observed.Disk))
}

func (p *planner) addForceConsequences(v *fsm.Volume) {
	if other := p.otherReplica(v); other != nil {
		p.add(step{action: "replica", state: stepFollows, volume: v, node: other.Node,
			detail: "when the volume is published, this replica is recorded as outdated: its host tears it down, keeps a snapshot of it, and synchronises it wholly"})
	}
	p.add(step{action: "publish", state: stepFollows, volume: v,
		detail: "the decision counts for the next publication on this node, once, and is kept in the history"})
}
