// Package volumegroup serves volumegroup.Controller of CSI-Addons on every controller: volumes that an
// orchestrator treats as one. Like package csi/controller it translates, proposes, waits and answers; fsm
// decides.
package volumegroup

import (
	"context"
	"slices"

	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/volumegroup"

	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Options are what the configuration says of groups.
type Options struct {
	// MaxVolumes is how many volumes a group can have.
	MaxVolumes uint32
	// KeepVolumes: a group that has volumes is not deleted. Without it they are deleted with the group.
	KeepVolumes bool
	// Disabled are names of capabilities whose RPCs are UNIMPLEMENTED.
	Disabled []string
}

// Server serves volumegroup.Controller.
type Server struct {
	volumegroup.UnimplementedControllerServer
	client  *cluster.Client
	options Options
}

var _ volumegroup.ControllerServer = (*Server)(nil)

// New serves volume groups over a cluster.
func New(c cluster.Cluster, options Options) *Server {
	return &Server{client: cluster.New(c), options: options}
}

// Capabilities are what is advertised for these options. The limit of one group for each volume and what
// a deletion keeps say how groups behave, so they go with VOLUME_GROUP.
func (o *Options) Capabilities() []identity.Capability_VolumeGroup_Type {
	all := []identity.Capability_VolumeGroup_Type{
		identity.Capability_VolumeGroup_VOLUME_GROUP,
		identity.Capability_VolumeGroup_MODIFY_VOLUME_GROUP,
		identity.Capability_VolumeGroup_GET_VOLUME_GROUP,
		identity.Capability_VolumeGroup_LIST_VOLUME_GROUPS,
	}
	all = slices.DeleteFunc(all, o.isDisabled)
	if o.isDisabled(identity.Capability_VolumeGroup_VOLUME_GROUP) {
		return all
	}
	all = append(all, identity.Capability_VolumeGroup_LIMIT_VOLUME_TO_ONE_VOLUME_GROUP)
	if o.KeepVolumes {
		all = append(all, identity.Capability_VolumeGroup_DO_NOT_ALLOW_VG_TO_DELETE_VOLUMES)
	}
	return all
}

func (o *Options) isDisabled(capability identity.Capability_VolumeGroup_Type) bool {
	return slices.Contains(o.Disabled, capability.String())
}

// checkServed is fsm.Unsupported (UNIMPLEMENTED) for a disabled capability, and while members that know no
// groups may be in the cluster.
func (s *Server) checkServed(ctx context.Context, capability identity.Capability_VolumeGroup_Type) error {
	if s.options.isDisabled(capability) {
		return fsm.Reject(fsm.Unsupported, "%s is turned off here", capability)
	}
	if knowsGroups, err := s.client.AtFeatureLevel(ctx, fsm.Level2); err != nil {
		return err
	} else if !knowsGroups {
		return fsm.Reject(fsm.Unsupported, "volume groups need feature level %d: finish the upgrade first", fsm.Level2)
	}
	return nil
}

// propose has a command applied, and describes the group that it is about.
func (s *Server) propose(ctx context.Context, cmd *fsmpb.Command) (described *volumegroup.VolumeGroup, err error) {
	out, err := s.client.ProposeCommand(ctx, cmd)
	if err != nil {
		return nil, err
	}
	err = s.client.View(func(state *fsm.State) error {
		g, ok := state.VolumeGroup(fsm.VolumeGroupID(out.GetVolumeGroupId()))
		if !ok {
			return fsm.Reject(fsm.Busy, "volume group %s was deleted meanwhile; retry", out.GetVolumeGroupId())
		}
		described = describe(state, g)
		return nil
	})
	return described, err
}

// checkGroupID: the id is not empty. One of another form than ours is unknown.
func checkGroupID(id string) error {
	if id == "" {
		return fsm.Reject(fsm.Invalid, "volume_group_id is required")
	}
	return nil
}

// checkVolumeIDs is fsm.Invalid for an empty id, and fsm.NotFound for one of another form than ours.
func checkVolumeIDs(ids []string) error {
	if slices.Contains(ids, "") {
		return fsm.Reject(fsm.Invalid, "an id among volume_ids is empty")
	}
	for _, id := range ids {
		if volume := fsm.VolumeID(id); !volume.Valid() {
			return fsm.UnknownVolume(volume)
		}
	}
	return nil
}
