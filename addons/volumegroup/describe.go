package volumegroup

import (
	"github.com/csi-addons/spec/lib/go/volumegroup"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/fsm"
)

// groupWithMembers is a group and those of its members that are ready: those that may have been returned
// to a caller, as ListVolumes lists them.
type groupWithMembers struct {
	group   *fsm.VolumeGroup
	volumes []*fsm.Volume
}

func withMembers(state *fsm.State, g *fsm.VolumeGroup) groupWithMembers {
	found := groupWithMembers{group: g}
	for _, id := range g.Members {
		if v, rej := state.KnownVolume(id); rej == nil {
			found.volumes = append(found.volumes, v)
		}
	}
	return found
}

// describe is a group as CSI-Addons describes it.
func describe(state *fsm.State, g *fsm.VolumeGroup) *volumegroup.VolumeGroup {
	found := withMembers(state, g)
	return found.proto(state.VolumeView(found.volumes...))
}

// proto has no volume_group_context: the id alone names the group.
func (g groupWithMembers) proto(view *fsm.VolumeView) *volumegroup.VolumeGroup {
	described := &volumegroup.VolumeGroup{VolumeGroupId: string(g.group.ID)}
	for _, v := range g.volumes {
		described.Volumes = append(described.Volumes, csiconv.Volume(view, v))
	}
	return described
}
