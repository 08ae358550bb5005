package admin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// volumeRelationView is the relation that a volume is in, as far as it is about this volume; nil where there is none.
func volumeRelationView(st *fsm.State, v *fsm.Volume) *adminpb.Relation {
	status := st.VolumeReplicationStatus(v)
	if status == nil {
		return nil
	}
	view := relationView(status)
	if v.Relation == nil {
		view.Group = string(st.GroupOf(v.ID))
	}
	if m := v.RelationMember; m != nil {
		addMember(view, m)
	}
	return view
}

func addMember(view *adminpb.Relation, m *fsm.RelationMember) {
	if m.Apart {
		view.Apart = m.ApartAt.String()
	}
	if m.Added {
		view.AddedAt = m.AddedAt.String()
	}
	if g := m.GivenUp; g != nil {
		view.GivenUp = &adminpb.GivenUp{Index: g.Index, Generation: g.Generation, Since: timeView(g.Since), RevertedTo: string(g.RevertedTo)}
	}
}

// groupRelationView is the relation of a group: the worst status of its volumes.
func groupRelationView(st *fsm.State, g *fsm.VolumeGroup) *adminpb.Relation {
	if g.Relation == nil {
		return nil
	}
	status, rej := st.ReplicationStatus(sourceOfGroup(g), "")
	if rej != nil { // a member is not there any more
		status = &fsm.ReplicationStatus{Relation: g.Relation, Health: fsm.ReplicationUnknown, Message: rej.Message}
	}
	view := relationView(status)
	view.Group, view.Message = string(g.ID), groupMessage(st, status)
	return view
}

// groupMessage names the volume that the message of a group's status is about, and how many of its volumes are not healthy:
// the others are shown as they are.
func groupMessage(st *fsm.State, status *fsm.ReplicationStatus) string {
	var worst *fsm.Volume
	unhealthy := 0
	for _, v := range status.Volumes {
		own := st.VolumeReplicationStatus(v)
		if own == nil || own.Health == fsm.ReplicationHealthy {
			continue
		}
		if unhealthy++; worst == nil && own.Health == status.Health {
			worst = v
		}
	}
	if worst == nil {
		return status.Message
	}
	return fmt.Sprintf("%d of %d volumes: volume %s: %s", unhealthy, len(status.Volumes), worst.Name, status.Message)
}

// addGroupStatus adds to volumes of groups what their groups' relations have: a member that is healthy may be in a group that
// is not, and the role moves for all of a group.
func addGroupStatus(st *fsm.State, volumes []*adminpb.Volume) {
	known := map[string]*adminpb.Relation{}
	for _, v := range volumes {
		group := v.GetRelation().GetGroup()
		if group == "" {
			continue
		}
		if _, asked := known[group]; !asked {
			if g, ok := st.VolumeGroup(fsm.VolumeGroupID(group)); ok {
				known[group] = groupRelationView(st, g)
			}
		}
		v.Relation.GroupStatus, v.Relation.GroupMessage = known[group].GetStatus(), known[group].GetMessage()
	}
}

// isOfUnhealthyGroup tells whether a healthy volume's group is not.
func isOfUnhealthyGroup(r *adminpb.Relation) bool {
	return r.GetStatus() == fsm.ReplicationHealthy.String() && r.GetGroupStatus() != "" && r.GetGroupStatus() != r.GetStatus()
}

// statusCell is the status; of a member that is healthy, that of its group too where that is not.
func statusCell(r *adminpb.Relation) string {
	if isOfUnhealthyGroup(r) {
		return fmt.Sprintf("%s, its group %s", r.GetStatus(), r.GetGroupStatus())
	}
	return r.GetStatus()
}

func relationView(status *fsm.ReplicationStatus) *adminpb.Relation {
	r := status.Relation
	view := &adminpb.Relation{
		Sites: mapSlice(r.Sites, fsm.Site.String), ReplicationId: r.ReplicationID, Role: r.Role, Claims: mapSlice(r.Claims, fsm.Site.String),
		Ousted: mapSlice(r.Ousted, func(o fsm.Ousted) *adminpb.Ousted {
			return &adminpb.Ousted{Site: o.Site.String(), Index: o.Index, Forced: o.Forced}
		}),
		Status: status.Health.String(), Message: status.Message, EverSynced: status.EverSynced,
		DiscardUnkept: r.DiscardUnkept, Separately: r.Separately, FreezeIsolated: r.FreezeIsolated, Enabled: r.Enabled,
	}
	if r.Promoted {
		view.Primary = r.Primary.String()
	}
	if r.Move != nil {
		view.MovingTo, view.MovingFrom = r.Move.To.String(), r.Move.From.String()
	}
	if last := status.LastSync; !last.Ended.IsZero() {
		view.LastSync = &adminpb.LastSync{Ended: timeView(last.Ended), Bytes: last.Bytes, Seconds: last.Duration.Seconds()}
	}
	return view
}

// conversionView returns nil for a volume that is not being converted.
func conversionView(r *fsm.Replication) *adminpb.Conversion {
	if r == nil || r.Conversion == nil {
		return nil
	}
	view := &adminpb.Conversion{Began: r.Conversion.Began, State: "second-replica", Reason: r.Conversion.Reason}
	switch {
	case r.Conversion.Restored:
		view.State = "restored"
	case r.Conversion.Undoing:
		view.State = "undoing"
	case r.Conversion.OnSeed:
		view.State = "metadata"
	}
	return view
}

// homesOf are the sites at which volumes of a group are at home, sorted.
func homesOf(st *fsm.State, g *fsm.VolumeGroup) (homes []string) {
	for _, id := range g.Members {
		if v, ok := st.Volume(id); ok {
			homes = appendUnique(homes, v.Home.String())
		}
	}
	slices.Sort(homes)
	return homes
}

// roleCell is the site that has the role, or where it goes; empty where there is no relation.
func roleCell(r *adminpb.Relation) string {
	switch {
	case r == nil:
		return ""
	case r.GetMovingTo() != "":
		return "moving to " + r.GetMovingTo()
	case r.GetPrimary() == "":
		return "demoted"
	}
	return "primary " + r.GetPrimary()
}

// replicationCell is the status, with its message where something is to be known.
func replicationCell(r *adminpb.Relation) string {
	if r == nil || r.GetStatus() == fsm.ReplicationHealthy.String() {
		return r.GetStatus()
	}
	return r.GetStatus() + ": " + r.GetMessage()
}

func oustedCell(r *adminpb.Relation) string {
	return strings.Join(mapSlice(r.GetOusted(), func(o *adminpb.Ousted) string {
		if o.GetForced() {
			return o.GetSite() + " by force"
		}
		return o.GetSite()
	}), ",")
}

func lastSyncCell(l *adminpb.LastSync) string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("%s, %s in %.1f s", l.GetEnded(), formatSize(l.GetBytes()), l.GetSeconds())
}

func givenUpCell(g *adminpb.GivenUp) string {
	if g == nil {
		return ""
	}
	return fmt.Sprintf("generation %d at index %d", g.GetGeneration(), g.GetIndex())
}

// conversionCell is the message of the status, or how far the conversion is.
func conversionCell(v *adminpb.Volume) string {
	switch c := v.GetConversion(); {
	case c == nil && isOfUnhealthyGroup(v.GetRelation()):
		return "its group: " + v.GetRelation().GetGroupMessage()
	case c == nil:
		return v.GetRelation().GetMessage()
	case c.GetState() == "undoing":
		return "the conversion is being undone: " + c.GetReason()
	case c.GetState() == "metadata":
		return "being converted: its content gets DRBD's metadata"
	}
	return "being converted: its second replica is being made"
}
