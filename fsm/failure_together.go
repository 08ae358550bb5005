package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// heldBackBy is a member of the volume's group for which its verdict waits for good: a group is cut together (S52), and no
// host of that member is there to say that it is disconnected. Nil: there is none.
func (x *failureView) heldBackBy(v *Volume) *Volume {
	relation := x.s.RelationOf(v)
	if relation == nil || v.Relation != nil || relation.Separately || v.Replication.Protocol == fsmpb.Protocol_PROTOCOL_A || !x.s.replicatesWrites(v) {
		return nil
	}
	group := x.s.sourceOf(string(x.s.GroupOf(v.ID)))
	if group == nil {
		return nil
	}
	for _, other := range group.members {
		if other.ID != v.ID && !x.s.isCut(other) && !slices.ContainsFunc(other.ActiveReplicas(), x.serves) {
			return other
		}
	}
	return nil
}
