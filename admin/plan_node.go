package admin

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// planDrain cordons the node and lists the published volumes that the orchestrator must move, and those of
// which the last copy is there: they cannot be used while the host is away. It moves no data and ends no publication.
func (p *planner) planDrain() error {
	if err := p.addCordon(); err != nil {
		return err
	}
	for _, v := range p.nodeVolumes() {
		if pub := v.Publication(p.nodeID()); pub != nil {
			p.published++
			if pub.Staging != nil {
				p.staged++
			}
			p.add(step{action: "move", state: stepWaiting, volume: v, detail: p.moveDetail(v)})
		}
	}
	impact := p.state.IfStopped(fsm.Failure{Nodes: []fsm.NodeID{p.nodeID()}})
	for _, v := range impact.Volumes {
		if v.Impact < fsm.ImpactUnavailable {
			continue
		}
		if p.onlyHere++; !p.reachedListLimit(stepFollows) {
			p.add(step{action: "away", state: stepFollows, volume: v.Volume, detail: fmt.Sprintf("%s while the host is away: %s", v.Impact, v.Reason)})
		}
	}
	return nil
}

// planEvict drains the node and moves the replicas of replicated volumes to other nodes.
func (p *planner) planEvict() error {
	if err := p.addCordon(); err != nil {
		return err
	}
	for _, v := range p.nodeVolumes() {
		p.evictVolume(v)
	}
	p.addMissingReplicas()
	p.addSnapshots()
	return nil
}

// planUndrain uncordons the node, so that it gets new volumes and replicas again.
func (p *planner) planUndrain() error {
	n, _ := p.state.Node(p.nodeID())
	if n.Host != p.host {
		return p.wrongHost(n)
	}
	if n.Cordoned {
		p.addCommand(step{action: "uncordon", detail: "it gets new volumes and replicas"}, cordonCommand(n, false))
	} else {
		p.add(step{action: "uncordon", state: stepDone, detail: "it gets new volumes and replicas"})
	}
	if n.Maintenance != 0 {
		p.addCommand(step{action: "release", detail: "it is not in maintenance any more: other hosts of its volumes may be rebooted"}, releaseCommand(n))
	}
	return nil
}

func releaseCommand(n *fsm.Node) *fsmpb.Command {
	return &fsmpb.Command{Body: &fsmpb.Command_ClaimMaintenance{ClaimMaintenance: &fsmpb.ClaimMaintenance{
		NodeId: string(n.ID), HostId: string(n.Host), Release: true,
	}}}
}

func (t *planTarget) nodeID() fsm.NodeID { return fsm.NodeID(t.req.GetNode()) }

// addCordon adds the first step of a drain; the host must be the requested one (S17).
func (p *planner) addCordon() error {
	n, _ := p.state.Node(p.nodeID())
	switch {
	case n.Host != p.host:
		return p.wrongHost(n)
	case n.State == fsm.NodeLost:
		return fsm.Reject(fsm.Precondition, "node %s was recorded as lost: it has nothing to give up", n.ID)
	case n.Cordoned:
		p.add(step{action: "cordon", state: stepDone, detail: "it gets no new volumes or replicas"})
		return nil
	}
	p.addCommand(step{action: "cordon", detail: "it gets no new volumes or replicas"}, cordonCommand(n, true))
	return nil
}

// wrongHost rejects a request whose host is not registered under the node's id any more (S17, S71).
func (t *planTarget) wrongHost(n *fsm.Node) error {
	return fsm.Reject(fsm.StaleEpoch, "node %s is host %s, not %s: look at the plan again", n.ID, n.Host, t.host)
}

// planAdopt lets a host that was registered with another incarnation act for this one (S1).
func (p *planner) planAdopt() error {
	n, _ := p.state.Node(p.nodeID())
	at := p.state.Cluster().Incarnation
	switch {
	case n.Host != p.host:
		return p.wrongHost(n)
	case n.Incarnation == at:
		p.add(step{action: "adopt", state: stepDone, detail: fmt.Sprintf("it acts for incarnation %d", at)})
		return nil
	}
	p.addCommand(step{action: "adopt", detail: fmt.Sprintf("it met incarnation %d and acts for %d from then on: it does what this log says", n.Incarnation, at)},
		&fsmpb.Command{Body: &fsmpb.Command_AdoptNode{AdoptNode: &fsmpb.AdoptNode{NodeId: string(n.ID), HostId: string(n.Host), Incarnation: at}}})
	return nil
}

func cordonCommand(n *fsm.Node, cordoned bool) *fsmpb.Command {
	return &fsmpb.Command{Body: &fsmpb.Command_ScheduleNode{ScheduleNode: &fsmpb.ScheduleNode{
		NodeId: string(n.ID), HostId: string(n.Host), Cordoned: cordoned,
	}}}
}

func isPublished(v *fsm.Volume, node fsm.NodeID) bool { return v.Publication(node) != nil }

// moveDetail says where a volume that is published on this node can be published instead.
func (t *planTarget) moveDetail(v *fsm.Volume) string {
	other := t.otherReplica(v)
	use := "it is published here"
	if pub := v.Publication(t.nodeID()); pub != nil && pub.Staging != nil {
		use = "it is staged here"
	}
	switch {
	case other == nil:
		return use + " and has no replica elsewhere: stop what uses it"
	case other.Outdated:
		return fmt.Sprintf("%s; its replica on %s is outdated: it can move when that was synchronised", use, other.Node)
	case !other.UpToDate:
		return fmt.Sprintf("%s; its replica on %s is not up to date yet: it can move when it is", use, other.Node)
	}
	return fmt.Sprintf("%s; it can move to %s", use, other.Node)
}

// otherReplica returns the volume's active replica on another host; nil when there is none.
func (t *planTarget) otherReplica(v *fsm.Volume) *fsm.Replica {
	for i := range v.Replicas {
		r := &v.Replicas[i]
		if v.ActiveReplica(r.Host) != nil && r.Host != t.host && r.State != fsm.ReplicaGone {
			return r
		}
	}
	return nil
}

// evictVolume moves one volume's replica off the node. Because DRBD 8.4 has two replicas at most, the
// old one is removed before the new one is added; the other replica must be up to date first.
func (p *planner) evictVolume(v *fsm.Volume) {
	r := v.Replica(p.host)
	other := p.otherReplica(v)
	addWaiting := func(action, detail string) {
		p.add(step{action: action, state: stepWaiting, volume: v, detail: detail})
	}
	switch _, ready := v.Phase.(fsm.Ready); {
	case r == nil && v.Publication(p.nodeID()) == nil:
		addWaiting("tear-down", "the host owes the end of a publication")
	case !ready:
		phase, _ := phaseView(v.Phase)
		addWaiting("wait", "the volume is "+phase)
	case isPublished(v, p.nodeID()):
		addWaiting("move", p.moveDetail(v))
	case r.State == fsm.ReplicaLeaving:
		addWaiting("remove-replica", "the host removes its replica")
	case v.Replication == nil:
		p.add(step{action: "keep", state: stepBlocked, volume: v,
			detail: "its only replica is here: make a volume elsewhere of its snapshot or clone, then delete it"})
	case other == nil:
		p.addReplica(v)
	case !other.UpToDate:
		addWaiting("synchronise", p.syncDetail(v, other))
	default:
		p.removeReplica(v, r)
	}
}

func (t *planTarget) syncDetail(v *fsm.Volume, r *fsm.Replica) string {
	if own := v.ActiveReplica(t.host); own != nil && own.Observed.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE {
		return fmt.Sprintf("the replica on %s is synchronised from here: %d %%", r.Node, own.Observed.SyncPercent)
	}
	return fmt.Sprintf("the replica on %s is not up to date: %s", r.Node, diskView(r.Observed.Disk))
}

// removeReplica removes a replica and adds another one. When the addition would be rejected, nothing
// is removed, so that the volume is not left with one replica.
func (p *planner) removeReplica(v *fsm.Volume, r *fsm.Replica) {
	if p.reachedTodoLimit() {
		return
	}
	removal := &fsmpb.Command{Body: &fsmpb.Command_RemoveReplica{RemoveReplica: &fsmpb.RemoveReplica{
		VolumeId: string(v.ID), NodeId: string(r.Node), HostId: string(r.Host), Reason: p.reason(),
	}}}
	t := step{action: "remove-replica", state: stepTodo, volume: v, node: r.Node, command: removal}
	addBlocked := func(why string) {
		t.state, t.detail, t.command = stepBlocked, why, nil
		p.add(t)
	}
	if err := p.dryRun(removal); err != nil {
		addBlocked(err.Error())
		return
	}
	addition, err := p.addReplicaStep(v)
	if err != nil {
		p.unplaceable[v.ID] = true
		addBlocked("there is no place for another replica: " + err.Error())
		return
	}
	p.add(t)
	p.add(addition)
}

// addReplica adds a replica; the state machine chooses its node.
func (p *planner) addReplica(v *fsm.Volume) {
	if p.reachedTodoLimit() {
		return
	}
	t, err := p.addReplicaStep(v)
	if err != nil {
		t.state, t.detail, t.command = stepBlocked, err.Error(), nil
	}
	p.add(t)
}

// addReplicaStep returns the step that adds a replica; the error is why it would be rejected.
func (p *planner) addReplicaStep(v *fsm.Volume) (step, error) {
	cmd := &fsmpb.Command{Body: &fsmpb.Command_AddReplica{AddReplica: &fsmpb.AddReplica{VolumeId: string(v.ID), Reason: p.reason()}}}
	t := step{action: "add-replica", state: stepTodo, volume: v, node: "-", command: cmd}
	err := p.dryRun(cmd)
	if after, found := p.state.Volume(v.ID); err == nil && found {
		for _, r := range after.Replicas {
			if r.State == fsm.ReplicaPlanned {
				t.node, t.detail = r.Node, "it is synchronised wholly from the replica that stays"
			}
		}
	}
	return t, err
}

func (t *planTarget) reason() string {
	if why := t.req.GetReason(); why != "" {
		return why
	}
	return t.req.GetVerb() + " of node " + t.req.GetNode()
}

// addMissingReplicas adds replicas to all replicated volumes that have too few: because an earlier call
// was interrupted or found no space, or because of this plan's loss.
func (p *planner) addMissingReplicas() {
	var incomplete []*fsm.Volume
	for v := range p.underReplicated() {
		if _, ready := v.Phase.(fsm.Ready); ready && v.Replication != nil && !p.unplaceable[v.ID] && remainingReplicas(v) < v.Replication.ReplicaCount {
			incomplete = append(incomplete, v)
		}
	}
	for _, v := range incomplete {
		p.addReplica(v)
	}
}

// underReplicated yields the volumes that may have too few replicas, in order of their ids. The state's
// index of volumes in repair lacks those that a sweep has not written yet: then all are yielded.
func (p *planner) underReplicated() iter.Seq[*fsm.Volume] {
	if len(p.state.Cluster().Sweeps) > 0 && p.volumesOfLostHost == nil {
		return p.state.Volumes("")
	}
	ids := map[fsm.VolumeID]bool{}
	for v := range p.state.VolumesInRepair() {
		ids[v.ID] = true
	}
	for _, v := range p.volumesOfLostHost {
		if v.Replication != nil {
			ids[v.ID] = true
		}
	}
	return func(yield func(*fsm.Volume) bool) {
		for _, id := range slices.Sorted(maps.Keys(ids)) {
			if v, ok := p.state.Volume(id); ok && !yield(v) {
				return
			}
		}
	}
}

// remainingReplicas returns how many replicas are neither removed nor being removed.
func remainingReplicas(v *fsm.Volume) (n uint32) {
	for _, r := range v.Replicas {
		if r.State != fsm.ReplicaGone && r.State != fsm.ReplicaLeaving {
			n++
		}
	}
	return n
}

// addSnapshots adds blocked steps for snapshots and kept copies: they cannot move to another host.
func (p *planner) addSnapshots() {
	kept := p.keptCopyCount()
	if kept > 0 {
		p.add(step{action: "keep", state: stepBlocked, detail: "what replicas lost is kept here and cannot move: look at `holdfast volumes kept`, and remove what is not needed"})
	}
	if n := p.snapshotCount() - kept; n > 0 {
		p.add(step{action: "keep", state: stepBlocked, detail: fmt.Sprintf("%d snapshots are kept here and cannot move: delete them, or make volumes of them first", n)})
	}
}
