package admin

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// adoptSnapshot is the action of a step that takes in a snapshot, or a group snapshot with its members.
const adoptSnapshot = "adopt-snapshot"

// adoptSnapshots takes in the snapshots that hosts keep and this log does not know as taken.
func (a *adoption) adoptSnapshots() {
	groups := map[string][]*fsmpb.AdoptedSnapshot{}
	for _, id := range a.heldSnapshots() {
		claims := a.claimsOf(id)
		said := claims[0].GetHeld().GetManifest()
		t := step{action: adoptSnapshot, node: fsm.NodeID(claims[0].GetNodeId()), snapshot: string(id), snapshotName: said.GetName(), detail: snapshotDetail(said)}
		switch {
		case len(claims) > 1:
			a.leaveSnapshot(t, claims, fmt.Sprintf("nodes %s and %s both say that they keep it: look at both, and remove one of the two by hand", claims[0].GetNodeId(), claims[1].GetNodeId()))
		case said.GetGroup() != nil:
			group := said.GetGroup().GetGroupSnapshotId()
			groups[group] = append(groups[group], claims[0])
		default:
			a.tryAdoptSnapshot(t, &fsmpb.AdoptSnapshot{Snapshots: claims})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		a.adoptGroup(id, groups[id])
	}
}

// heldSnapshots are those that a host keeps with what the lost log said of it, and that this log neither knows as taken nor
// was asked to delete.
func (a *adoption) heldSnapshots() []fsm.SnapshotID {
	ids := map[fsm.SnapshotID]bool{}
	for _, h := range a.holdings {
		for id, held := range h.snapshots {
			n, known := a.state.Snapshot(id)
			over := known && (n.Phase == fsm.SnapshotReady || n.Phase == fsm.SnapshotDeleting)
			if !over && h.isKept(held, a.incarnation) {
				ids[id] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// isKept tells whether the host has the image of which a lost log spoke.
func (h *holdings) isKept(held *fsmpb.HeldSnapshot, incarnation uint64) bool {
	return h.err == nil && held.GetSizeBytes() > 0 && !held.GetRemoved() && held.GetAt().GetIncarnation() < incarnation
}

// claimsOf are what the hosts that keep the snapshot say of it, in order of their nodes.
func (a *adoption) claimsOf(id fsm.SnapshotID) (claims []*fsmpb.AdoptedSnapshot) {
	for _, node := range slices.Sorted(maps.Keys(a.holdings)) {
		h := a.holdings[node]
		n, ok := a.state.Node(node)
		if held := h.snapshots[id]; ok && held != nil && h.isKept(held, a.incarnation) {
			claims = append(claims, &fsmpb.AdoptedSnapshot{NodeId: string(n.ID), HostId: string(n.Host), Held: held})
		}
	}
	return claims
}

// adoptGroup takes in a group snapshot when all of its members are there: they are of one instant, or are none.
func (a *adoption) adoptGroup(id string, members []*fsmpb.AdoptedSnapshot) {
	said := members[0].GetHeld().GetManifest().GetGroup()
	t := step{action: adoptSnapshot, node: fsm.NodeID(members[0].GetNodeId()), snapshot: id, snapshotName: said.GetName()}
	t.detail = fmt.Sprintf("this log does not know it: a group snapshot with %d members", len(said.GetMembers()))
	if missing := a.missingMember(said, members); missing != "" {
		t.state, t.detail = stepWaiting, missing
		a.add(t)
		a.holdBackSnapshots(members, missing)
		return
	}
	a.tryAdoptSnapshot(t, &fsmpb.AdoptSnapshot{GroupSnapshotId: id, Snapshots: a.withKnownMembers(said, members)})
}

// withKnownMembers adds the members that this log knows already, as their hosts keep them.
func (a *adoption) withKnownMembers(said *fsmpb.GroupSnapshotManifest, members []*fsmpb.AdoptedSnapshot) []*fsmpb.AdoptedSnapshot {
	for _, p := range said.GetMembers() {
		if claims := a.claimsOf(fsm.SnapshotID(p.GetSnapshotId())); len(claims) == 1 && !hasMember(members, p) {
			members = append(members, claims...)
		}
	}
	return members
}

func hasMember(members []*fsmpb.AdoptedSnapshot, p *fsmpb.SnapshotPlace) bool {
	return slices.ContainsFunc(members, func(m *fsmpb.AdoptedSnapshot) bool {
		return m.GetHeld().GetManifest().GetSnapshotId() == p.GetSnapshotId()
	})
}

// missingMember says which host keeps another member and has not answered.
func (a *adoption) missingMember(said *fsmpb.GroupSnapshotManifest, members []*fsmpb.AdoptedSnapshot) string {
	for _, p := range said.GetMembers() {
		n, known := a.state.Node(fsm.NodeID(p.GetNodeId()))
		gone := known && (string(n.Host) != p.GetHostId() || n.State == fsm.NodeLost) || slices.Contains(a.req.GetWithout(), p.GetNodeId())
		if h, asked := a.holdings[fsm.NodeID(p.GetNodeId())]; hasMember(members, p) || gone || asked && h.err == nil {
			continue
		}
		return fmt.Sprintf("host %s of node %s keeps its member %s and has not answered: start it, or say --without %s if that is gone for good", p.GetHostId(), p.GetNodeId(), p.GetSnapshotId(), p.GetNodeId())
	}
	return ""
}

// tryAdoptSnapshot adds the step, or says why the snapshot stays as it is.
func (a *adoption) tryAdoptSnapshot(t step, cmd *fsmpb.AdoptSnapshot) {
	if a.reachedTodoLimit() {
		return
	}
	t.command = &fsmpb.Command{Body: &fsmpb.Command_AdoptSnapshot{AdoptSnapshot: cmd}}
	if err := a.dryRun(t.command); err != nil {
		a.leaveSnapshot(t, cmd.GetSnapshots(), err.Error())
		return
	}
	t.state = stepTodo
	a.add(t)
}

// leaveSnapshot lists what stays as it is, an orphan. Where this log saw its taking begin, its host stays in adoption mode:
// once it acts for this log it would take it anew, or remove it.
func (a *adoption) leaveSnapshot(t step, claims []*fsmpb.AdoptedSnapshot, why string) {
	t.action, t.state, t.detail, t.command = "leave", stepFollows, why, nil
	if a.saysMore(claims) || fsm.TooNew(a.state.Cluster().FeatureLevel, &fsmpb.Command{Body: &fsmpb.Command_AdoptSnapshot{AdoptSnapshot: &fsmpb.AdoptSnapshot{}}}) != nil {
		t.action, t.state = adoptSnapshot, stepBlocked
		a.holdBackSnapshots(claims, "`holdfast nodes adopt` adopts it without that: "+why)
	}
	a.add(t)
}

// saysMore tells whether this log has a record of one of them that is not as the lost log had it.
func (a *adoption) saysMore(claims []*fsmpb.AdoptedSnapshot) bool {
	return slices.ContainsFunc(claims, func(c *fsmpb.AdoptedSnapshot) bool {
		n, known := a.state.Snapshot(fsm.SnapshotID(c.GetHeld().GetManifest().GetSnapshotId()))
		return known && n.Phase != fsm.SnapshotReady && !n.Gone
	})
}

func (a *adoption) holdBackSnapshots(claims []*fsmpb.AdoptedSnapshot, why string) {
	for _, c := range claims {
		a.open[fsm.NodeID(c.GetNodeId())] = why
	}
}

func snapshotDetail(m *fsmpb.SnapshotManifest) string {
	what := "a snapshot"
	if m.GetKept() != nil {
		what = "a kept copy"
	}
	return fmt.Sprintf("this log does not know it: %s of volume %s, %d bytes, taken at %s", what, m.GetSourceVolumeId(), m.GetSizeBytes(), fsm.TimeOf(m.GetTakenAt()).UTC().Format(time.RFC3339))
}
