package admin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// listGroups lists what hosts know of volume groups and of replication between sites that this log does not have. It is not
// taken in: who has the role, and what was promised to a site since, no host knows. Who asked for it asks again.
func (a *adoption) listGroups() {
	for _, id := range a.heldVolumes() {
		v, known := a.state.Volume(id)
		said, node := a.newestManifest(id)
		if !known || said == nil {
			continue
		}
		group, sites := said.GetVolumeGroupId(), said.GetRelatedSites()
		if _, exists := a.state.VolumeGroup(fsm.VolumeGroupID(group)); group != "" && !exists && a.state.GroupOf(id) == "" {
			a.add(step{action: "regroup", state: stepFollows, volume: v, node: node, detail: fmt.Sprintf("the lost log had it in volume group %q (%s), which this log does not know: "+
				"the orchestrator creates the group again; if its record has that id, it is to forget the group first, and keep the volumes", said.GetVolumeGroupName(), group)})
		}
		if len(sites) > 0 && a.state.RelationOf(v) == nil {
			a.add(step{action: "replicate-again", state: stepFollows, volume: v, node: node, detail: fmt.Sprintf("the lost log replicated it between the sites %s: "+
				"the orchestrator enables replication again and promotes the site that is to use it; or `holdfast volumes enable-replication`", strings.Join(sites, " and "))})
		}
	}
}

// newestManifest is what was said last of a volume, and to which node.
func (a *adoption) newestManifest(id fsm.VolumeID) (said *fsmpb.VolumeManifest, of fsm.NodeID) {
	var newest fsm.Epoch
	for _, node := range slices.Sorted(maps.Keys(a.holdings)) {
		h := a.holdings[node]
		at := fsm.EpochFrom(h.volumes[id].GetAt())
		if m := h.volumes[id].GetManifest(); m != nil && h.has(id) && at.Incarnation < a.incarnation && (said == nil || at.Compare(newest) > 0) {
			said, of, newest = m, node, at
		}
	}
	return said, of
}
