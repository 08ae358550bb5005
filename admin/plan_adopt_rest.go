package admin

import (
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// forgetMissing deletes the volumes that this log knows and no host has any more: they were deleted after the backup.
// Where no host says so, it is the operator who does.
func (a *adoption) forgetMissing() {
	for _, v := range slices.Collect(a.state.Volumes("")) {
		if _, ready := v.Phase.(fsm.Ready); !ready || !a.isMissing(v) {
			continue
		}
		if a.reachedTodoLimit() {
			continue
		}
		t := step{action: "delete", volume: v, node: v.Replicas[0].Node, detail: "no host has it: it was deleted after the backup, as its host says"}
		if !a.saidRemoved(v) {
			t.detail = "no host has it, as --forget-missing takes for deleted"
		}
		if !a.saidRemoved(v) && !a.req.GetForgetMissing() {
			t.state, t.detail = stepBlocked, "no host has it, and none says that it was deleted: it was deleted after the backup, or its disk is gone: --forget-missing deletes it"
			a.add(t)
			continue
		}
		a.deleteVolume(t, v)
	}
}

// forgetGivenBack deletes the imports that this log is in the middle of, and that the lost one finished and ended: the host
// would take in again what is of others by now. Until that is deleted the host does not act.
func (a *adoption) forgetGivenBack() {
	for _, v := range slices.Collect(a.state.Volumes("")) {
		if !a.isImportOver(v) || a.reachedTodoLimit() {
			continue
		}
		own := v.Replicas[0].Node
		t := step{action: "delete", volume: v, node: own, detail: "its import ended after the backup, and its host gave the device back, as that says"}
		if !a.isMissing(v) {
			t.state, t.detail = stepWaiting, "its host has it no more, and another one has it, or has not answered: start that, or delete the volume"
			a.open[own] = t.detail
			a.add(t)
			continue
		}
		a.deleteVolume(t, v)
		if !a.isDeleting(v.ID) {
			a.open[own] = "an import that is over could not be deleted"
		}
	}
}

// isImportOver tells of an import whose host waits to be adopted, and says that the volume became ready and was removed.
func (a *adoption) isImportOver(v *fsm.Volume) bool {
	if _, creating := v.Phase.(fsm.Creating); !creating || v.Import == nil || !a.saidRemoved(v) {
		return false
	}
	n, ok := a.state.Node(v.Replicas[0].Node)
	return ok && n.Host == v.Replicas[0].Host && n.Incarnation != a.incarnation
}

func (a *adoption) isDeleting(id fsm.VolumeID) bool {
	v, known := a.state.Volume(id)
	if !known {
		return true
	}
	_, deleting := v.Phase.(fsm.Deleting)
	return deleting
}

func (a *adoption) deleteVolume(t step, v *fsm.Volume) {
	for _, p := range v.Publications() {
		end := step{action: "unpublish", volume: v, node: p.Node, detail: "no host has the volume"}
		if !a.addCommand(end, &fsmpb.Command{Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: string(v.ID), NodeId: string(p.Node)}}}) {
			return
		}
	}
	a.addCommand(t, &fsmpb.Command{Body: &fsmpb.Command_DeleteVolume{DeleteVolume: &fsmpb.DeleteVolume{VolumeId: string(v.ID)}}})
}

// isMissing: all of its hosts answered in adoption mode, and neither they nor any other host has a device of it. While a
// host does not answer, the volume may have moved there.
func (a *adoption) isMissing(v *fsm.Volume) bool {
	for _, h := range a.holdings {
		if h.err != nil || h.has(v.ID) || h.volumes[v.ID] != nil && !h.volumes[v.ID].GetRemoved() {
			return false
		}
	}
	for i := range v.Replicas {
		r := &v.Replicas[i]
		n, ok := a.state.Node(r.Node)
		h, asked := a.holdings[r.Node]
		if !ok || n.Host != r.Host || n.Incarnation == a.incarnation || !asked || h.err != nil || h.has(v.ID) {
			return false
		}
	}
	return len(v.Replicas) > 0
}

// saidRemoved: its host removed it as the log said. A replica is removed also when another one takes its place, perhaps on a
// host that this log does not know, so that of a replicated volume this says nothing.
func (a *adoption) saidRemoved(v *fsm.Volume) bool {
	return v.Replication == nil && slices.ContainsFunc(v.Replicas, func(r fsm.Replica) bool {
		h := a.holdings[r.Node]
		return h.removed(v.ID)
	})
}

// listOrphans lists the devices that stay as they are: nothing says what they are.
func (a *adoption) listOrphans() {
	for _, node := range slices.Sorted(maps.Keys(a.holdings)) {
		h := a.holdings[node]
		for _, id := range slices.Sorted(maps.Keys(h.images)) {
			if h.volumes[id].GetManifest() != nil {
				continue
			}
			switch v, known := a.state.Volume(id); {
			case !known:
				a.add(step{action: "leave", state: stepFollows, node: node, volume: &fsm.Volume{ID: id},
					detail: "nothing says what it is: it stays as it is, an orphan of `holdfast audit`"})
			case a.isElsewhere(v, node):
				a.add(step{action: "leave", state: stepFollows, node: node, volume: v,
					detail: fmt.Sprintf("this log has it on node %s, and nothing says what this device is: it stays as it is, an orphan of `holdfast audit`; if node %s is gone for good, look at what the device has before anybody removes it", v.Replicas[0].Node, v.Replicas[0].Node)})
			}
		}
	}
}

// isElsewhere tells whether the log has nothing of the volume on the host that the node is.
func (a *adoption) isElsewhere(v *fsm.Volume, node fsm.NodeID) bool {
	n, ok := a.state.Node(node)
	return ok && v.Replica(n.Host) == nil && len(v.Replicas) > 0
}

// adoptNodes lets the hosts act for this incarnation, when nothing of theirs waits.
func (a *adoption) adoptNodes() {
	for _, n := range slices.Collect(a.state.Nodes()) {
		h, asked := a.holdings[n.ID]
		t := step{action: "adopt-node", node: n.ID}
		switch {
		case n.State == fsm.NodeLost:
		case n.Incarnation == a.incarnation:
			t.state, t.detail = stepDone, fmt.Sprintf("it acts for incarnation %d", a.incarnation)
			a.add(t)
		case !asked || h.err != nil:
			t.state, t.detail = stepWaiting, fmt.Sprintf("what it has is not known: start it, or record it as lost: %v", h.err)
			a.add(t)
		case a.open[n.ID] != "":
			t.state, t.detail = stepWaiting, "after its volumes: "+a.open[n.ID]
			a.add(t)
		case a.reachedTodoLimit():
		default:
			t.detail = fmt.Sprintf("host %s met incarnation %d, and does what this log says from then on", n.Host, n.Incarnation)
			a.addCommand(t, &fsmpb.Command{Body: &fsmpb.Command_AdoptNode{AdoptNode: &fsmpb.AdoptNode{NodeId: string(n.ID), HostId: string(n.Host), Incarnation: a.incarnation}}})
		}
	}
}

// holdsBack tells whether a step adopts a host although a volume that was to be adopted or forgotten before was refused by
// the log.
func (p *planner) holdsBack(i int) bool {
	return p.steps[i].action == "adopt-node" && p.steps[i].state == stepTodo && slices.ContainsFunc(p.steps[:i], func(t step) bool {
		return (t.action == "adopt" || t.action == "delete" || t.action == adoptSnapshot) && t.state == stepBlocked && t.command != nil
	})
}
