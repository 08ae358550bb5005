package admin

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// drain: the node gets nothing new, and the orchestrator moves what is published
// there. It moves no data and ends no publication.
func (p *planner) drain() error {
	if err := p.cordon(); err != nil {
		return err
	}
	for _, v := range p.volumes() {
		if published(v, p.node()) {
			p.add(step{action: "move", state: stepWaiting, volume: v, detail: p.whereTo(v)})
		}
	}
	return nil
}

// evict: drain, and the replicas of replicated volumes go elsewhere.
func (p *planner) evict() error {
	if err := p.cordon(); err != nil {
		return err
	}
	for _, v := range p.volumes() {
		p.evictFrom(v)
	}
	p.addLacking()
	p.snapshots()
	return nil
}

// undrain: the node gets new volumes and replicas again.
func (p *planner) undrain() error {
	n, _ := p.state.Node(p.node())
	if n.Host != p.host {
		return p.otherHost(n)
	}
	if !n.Cordoned {
		p.add(step{action: "uncordon", state: stepDone, detail: "it gets new volumes and replicas"})
		return nil
	}
	p.try(step{action: "uncordon", detail: "it gets new volumes and replicas"}, schedule(n, false))
	return nil
}

func (p *planner) node() fsm.NodeID { return fsm.NodeID(p.req.GetNode()) }

// cordon is the first step; the host must be the one that is meant (S17).
func (p *planner) cordon() error {
	n, _ := p.state.Node(p.node())
	switch {
	case n.Host != p.host:
		return p.otherHost(n)
	case n.State == fsm.NodeLost:
		return fsm.Reject(fsm.Precondition, "node %s was recorded as lost: it has nothing to give up", n.ID)
	case n.Cordoned:
		p.add(step{action: "cordon", state: stepDone, detail: "it gets no new volumes or replicas"})
		return nil
	}
	p.try(step{action: "cordon", detail: "it gets no new volumes or replicas"}, schedule(n, true))
	return nil
}

// otherHost: the one that is meant does not have the name any more (S17, S71).
func (p *planner) otherHost(n *fsm.Node) error {
	return fsm.Reject(fsm.StaleEpoch, "node %s is host %s, not %s: look at the plan again", n.ID, n.Host, p.host)
}

// adopt: a host that met another incarnation acts for this one (S1).
func (p *planner) adopt() error {
	n, _ := p.state.Node(p.node())
	at := p.state.Cluster().Incarnation
	switch {
	case n.Host != p.host:
		return p.otherHost(n)
	case n.Incarnation == at:
		p.add(step{action: "adopt", state: stepDone, detail: fmt.Sprintf("it acts for incarnation %d", at)})
		return nil
	}
	p.try(step{action: "adopt", detail: fmt.Sprintf("it met incarnation %d and acts for %d from then on: it does what this log says", n.Incarnation, at)},
		&fsmpb.Command{Body: &fsmpb.Command_AdoptNode{AdoptNode: &fsmpb.AdoptNode{NodeId: string(n.ID), HostId: string(n.Host), Incarnation: at}}})
	return nil
}

func schedule(n *fsm.Node, cordoned bool) *fsmpb.Command {
	return &fsmpb.Command{Body: &fsmpb.Command_ScheduleNode{ScheduleNode: &fsmpb.ScheduleNode{
		NodeId: string(n.ID), HostId: string(n.Host), Cordoned: cordoned,
	}}}
}

func published(v *fsm.Volume, node fsm.NodeID) bool { return v.Publication(node) != nil }

// whereTo says where a volume that is published here can be published instead.
func (p *planner) whereTo(v *fsm.Volume) string {
	other, leg := p.other(v)
	use := "it is published here"
	if pub := v.Publication(p.node()); pub != nil && pub.Staging != nil {
		use = "it is staged here"
	}
	switch {
	case other == nil:
		return use + " and has no replica elsewhere: stop what uses it"
	case leg.Outdated:
		return fmt.Sprintf("%s; its replica on %s is outdated: it can move when that was synchronised", use, other.Node)
	case !leg.UpToDate:
		return fmt.Sprintf("%s; its replica on %s is not up to date yet: it can move when it is", use, other.Node)
	}
	return fmt.Sprintf("%s; it can move to %s", use, other.Node)
}

// other is the volume's replica on another node and its leg; nil when there is none.
func (p *planner) other(v *fsm.Volume) (*fsm.Replica, *fsm.ReplicaSync) {
	for i := range v.Replicas {
		r := &v.Replicas[i]
		if leg := v.ReplicaSync(r.Host); leg != nil && r.Host != p.host && r.State != fsm.ReplicaGone && r.State != fsm.ReplicaLeaving {
			return r, leg
		}
	}
	return nil, nil
}

// evictFrom takes one volume's replica away from the node. The other replica must be
// up to date first: DRBD 8.4 holds two, so there is one for a while.
func (p *planner) evictFrom(v *fsm.Volume) {
	r := v.Replica(p.host)
	other, leg := p.other(v)
	waits := func(action, detail string) {
		p.add(step{action: action, state: stepWaiting, volume: v, detail: detail})
	}
	switch _, ready := v.Phase.(fsm.Ready); {
	case r == nil && v.Publication(p.node()) == nil:
		waits("tear-down", "the host owes the end of a publication")
	case !ready:
		phase, _ := phaseView(v.Phase)
		waits("wait", "the volume is "+phase)
	case published(v, p.node()):
		waits("move", p.whereTo(v))
	case r.State == fsm.ReplicaLeaving:
		waits("remove-replica", "the host removes its replica")
	case v.Replication == nil:
		p.add(step{action: "keep", state: stepBlocked, volume: v,
			detail: "its only replica is here: make a volume elsewhere of its snapshot or clone, then delete it"})
	case other == nil:
		p.addReplica(v)
	case !leg.UpToDate:
		waits("synchronise", p.progress(v, other, leg))
	default:
		p.removeReplica(v, r)
	}
}

func (p *planner) progress(v *fsm.Volume, r *fsm.Replica, leg *fsm.ReplicaSync) string {
	if own := v.ReplicaSync(p.host); own != nil && own.Observed.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE {
		return fmt.Sprintf("the replica on %s is synchronised from here: %d %%", r.Node, own.Observed.SyncPercent)
	}
	return fmt.Sprintf("the replica on %s is not up to date: %s", r.Node, diskView(leg.Observed.Disk))
}

// removeReplica and the addition that follows. Where the log would not take the
// addition, nothing is removed: a volume is not left with one replica for long.
func (p *planner) removeReplica(v *fsm.Volume, r *fsm.Replica) {
	if p.full() {
		return
	}
	removal := &fsmpb.Command{Body: &fsmpb.Command_RemoveReplica{RemoveReplica: &fsmpb.RemoveReplica{
		VolumeId: string(v.ID), NodeId: string(r.Node), HostId: string(r.Host), Reason: p.reason(),
	}}}
	t := step{action: "remove-replica", state: stepTodo, volume: v, node: r.Node, command: removal}
	blocked := func(why string) {
		t.state, t.detail, t.command = stepBlocked, why, nil
		p.add(t)
	}
	if err := p.would(removal); err != nil {
		blocked(err.Error())
		return
	}
	addition, err := p.another(v)
	if err != nil {
		p.refused[v.ID] = true
		blocked("there is no place for another replica: " + err.Error())
		return
	}
	p.add(t)
	p.add(addition)
}

// addReplica adds a replica on a node that the log chooses.
func (p *planner) addReplica(v *fsm.Volume) {
	if p.full() {
		return
	}
	t, err := p.another(v)
	if err != nil {
		t.state, t.detail, t.command = stepBlocked, err.Error(), nil
	}
	p.add(t)
}

// another is the step that adds a replica; the error is why the log would not take it.
func (p *planner) another(v *fsm.Volume) (step, error) {
	cmd := &fsmpb.Command{Body: &fsmpb.Command_AddReplica{AddReplica: &fsmpb.AddReplica{VolumeId: string(v.ID), Reason: p.reason()}}}
	t := step{action: "add-replica", state: stepTodo, volume: v, node: "-", command: cmd}
	err := p.would(cmd)
	if now, found := p.state.Volume(v.ID); err == nil && found {
		for _, r := range now.Replicas {
			if r.State == fsm.ReplicaPlanned {
				t.node, t.detail = r.Node, "it is synchronised wholly from the replica that stays"
			}
		}
	}
	return t, err
}

func (p *planner) reason() string {
	if why := p.req.GetReason(); why != "" {
		return why
	}
	return p.req.GetVerb() + " of node " + p.req.GetNode()
}

// addLacking adds replicas to all replicated volumes that have too few: an earlier call
// was interrupted or found no room, or this one loses them.
func (p *planner) addLacking() {
	var lacking []*fsm.Volume
	for v := range p.unsettled() {
		if _, ready := v.Phase.(fsm.Ready); ready && v.Replication != nil && !p.refused[v.ID] && kept(v) < v.Replication.ReplicaCount {
			lacking = append(lacking, v)
		}
	}
	for _, v := range lacking {
		p.addReplica(v)
	}
}

// unsettled yields the volumes that may have too few replicas, in order of id. The index
// of them does not have what a sweep has yet to write.
func (p *planner) unsettled() iter.Seq[*fsm.Volume] {
	if len(p.state.Cluster().Sweeps) > 0 && p.bereft == nil {
		return p.state.Volumes("")
	}
	ids := map[fsm.VolumeID]bool{}
	for v := range p.state.VolumesInRepair() {
		ids[v.ID] = true
	}
	for _, v := range p.bereft {
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

// kept is how many replicas stay.
func kept(v *fsm.Volume) (n uint32) {
	for _, r := range v.Replicas {
		if r.State != fsm.ReplicaGone && r.State != fsm.ReplicaLeaving {
			n++
		}
	}
	return n
}

// snapshots stay: they are of one host.
func (p *planner) snapshots() {
	copies := p.copiesKept()
	if copies > 0 {
		p.add(step{action: "keep", state: stepBlocked, detail: "what replicas lost is kept here and cannot move: look at `holdfast volumes kept`, and remove what is not needed"})
	}
	if n := p.snapshotsKept() - copies; n > 0 {
		p.add(step{action: "keep", state: stepBlocked, detail: fmt.Sprintf("%d snapshots are kept here and cannot move: delete them, or make volumes of them first", n)})
	}
}
