package admin

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

func volumeGroupView(st *fsm.State, g *fsm.VolumeGroup) *adminpb.VolumeGroup {
	abnormal, condition := groupCondition(st, g)
	return &adminpb.VolumeGroup{
		Id: string(g.ID), Name: g.Name, Origin: g.Origin.String(), Members: mapSlice(g.Members, func(id fsm.VolumeID) string { return string(id) }),
		Created: g.Created.String(), Modified: g.Modified,
		Homes: homesOf(st, g), Relation: groupRelationView(st, g),
		Abnormal: abnormal, Condition: condition,
	}
}

// groupCondition is how many volumes of a group are in an abnormal condition, and that of the first.
func groupCondition(st *fsm.State, g *fsm.VolumeGroup) (abnormal uint32, condition string) {
	for _, id := range g.Members {
		v, ok := st.Volume(id)
		if !ok {
			continue
		}
		if c := conditionView(st, v); c.Abnormal {
			if abnormal++; abnormal == 1 {
				condition = fmt.Sprintf("volume %s: %s", v.Name, c.Message)
			}
		}
	}
	return abnormal, condition
}

// groupConditionCell says how many volumes of the group it is about.
func groupConditionCell(g *adminpb.VolumeGroup) string {
	if g.GetAbnormal() == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d: %s", g.GetAbnormal(), len(g.GetMembers()), g.GetCondition())
}
