package reclaimspace

import (
	"context"

	spec "github.com/csi-addons/spec/lib/go/reclaimspace"

	"github.com/holdfast-storage/holdfast/addons/params"
	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ControllerServer serves reclaimspace.ReclaimSpaceController.
type ControllerServer struct {
	spec.UnimplementedReclaimSpaceControllerServer
	client *cluster.Client
	hosts  Hosts
}

// Hosts asks hosts what they observe of volumes.
type Hosts interface {
	VolumeFacts(ctx context.Context, node fsm.NodeID, id fsm.VolumeID) (executor.VolumeFacts, error)
}

var _ spec.ReclaimSpaceControllerServer = (*ControllerServer)(nil)

// NewController makes the service of a controller over a cluster and its hosts.
func NewController(c cluster.Cluster, hosts Hosts) *ControllerServer {
	return &ControllerServer{client: cluster.New(c), hosts: hosts}
}

// ControllerReclaimSpace has the host of an unpublished volume trim its filesystem, and returns when that has
// ended (S61). Where nothing is discarded, as the volume is published, raw, encrypted, or was never formatted, its usage
// is the same before and after; it is left out when its host cannot be asked.
func (s *ControllerServer) ControllerReclaimSpace(ctx context.Context, req *spec.ControllerReclaimSpaceRequest) (*spec.ControllerReclaimSpaceResponse, error) {
	id := fsm.VolumeID(req.GetVolumeId())
	if err := s.checkRequest(ctx, id, req); err != nil {
		return nil, rpcerr.OrUnknown(err)
	}
	out, err := s.client.ProposeCommand(ctx, &fsmpb.Command{Body: &fsmpb.Command_BeginReclaim{BeginReclaim: &fsmpb.BeginReclaim{VolumeId: string(id)}}})
	if err != nil {
		return nil, rpcerr.OrUnknown(err)
	}
	resp := &spec.ControllerReclaimSpaceResponse{}
	if out.GetEpoch() == nil {
		resp.PreUsage, resp.PostUsage = s.unchangedUsage(ctx, id)
		return resp, nil
	}
	result, err := s.awaitResult(ctx, id, fsm.EpochFrom(out.GetEpoch()))
	if err != nil {
		return nil, rpcerr.OrUnknown(err)
	}
	if result.Known {
		resp.PreUsage, resp.PostUsage = consumption(result.Before), consumption(result.After)
	}
	return resp, nil
}

// checkRequest: the parameters are the volume's attributes as its orchestrator has them, whatever they are.
func (s *ControllerServer) checkRequest(ctx context.Context, id fsm.VolumeID, req *spec.ControllerReclaimSpaceRequest) error {
	if id == "" {
		return fsm.Reject(fsm.Invalid, "volume_id is required")
	}
	if knowsReclaims, err := s.client.AtFeatureLevel(ctx, fsm.Level2); err != nil {
		return err
	} else if !knowsReclaims {
		return fsm.Reject(fsm.Unsupported, "the cluster runs at feature level 1, which has no reclaims of volumes that are not staged")
	}
	if err := params.Check(s.client.Site(), req.GetParameters()); err != nil {
		return err
	}
	if !id.Valid() {
		return fsm.UnknownVolume(id)
	}
	return nil
}

// awaitResult waits for the host. Shortly before ctx ends it is ABORTED, and a retry joins.
func (s *ControllerServer) awaitResult(ctx context.Context, id fsm.VolumeID, epoch fsm.Epoch) (result *fsm.Reclaimed, err error) {
	wake, stop := s.client.WatchVolumes(id)
	defer stop()
	err = s.client.Await(ctx, wake, "reclaim volume "+string(id), func(state *fsm.State) (bool, *fsm.Rejection) {
		r, rej := state.VolumeReclaim(id, epoch)
		result = r
		return r != nil, rej
	})
	return result, err
}
