package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/page"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
)

var volumeTokens = page.Tokens{Tag: "lv1", IDPrefix: "hf-"}

// ListVolumes lists the volumes that are ready, in order of their ids: those that may
// have been returned to a caller. A volume that is deleted leaves the list when its name
// is free (S18).
func (s *Server) ListVolumes(ctx context.Context, req *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	if err := s.enabled.checkEnabled(csi.ControllerServiceCapability_RPC_LIST_VOLUMES); err != nil {
		return nil, err
	}
	if req.GetMaxEntries() < 0 {
		return nil, rpcerr.Invalid("max_entries is negative")
	}
	listed := &page.Page[*fsm.Volume]{}
	var view *fsm.VolumeView
	var hidden map[fsm.NodeID]bool
	err := s.state.readState(ctx, func(state *fsm.State) error {
		after, err := volumeTokens.Decode(req.GetStartingToken(), state.Cluster().Incarnation)
		if err != nil {
			return err
		}
		listed.Collect(state.KnownVolumes(fsm.VolumeID(after)), req.GetMaxEntries())
		view, hidden = state.VolumeView(listed.Items...), state.Through(s.client.Site()).HiddenNodes()
		return nil
	})
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return volumesResponse(listed, view, hidden), nil
}

// volumesResponse describes the volumes; where it ends before the last one it has a token.
func volumesResponse(listed *page.Page[*fsm.Volume], view *fsm.VolumeView, hidden map[fsm.NodeID]bool) *csi.ListVolumesResponse {
	resp := &csi.ListVolumesResponse{}
	resp.Entries = page.Describe(listed, func(v *fsm.Volume) *csi.ListVolumesResponse_Entry { return volumeEntry(view, hidden, v) })
	if listed.More {
		resp.NextToken = volumeTokens.Encode(string(listed.Items[len(resp.Entries)-1].ID), view.Incarnation())
	}
	return resp
}

func volumeEntry(view *fsm.VolumeView, hidden map[fsm.NodeID]bool, v *fsm.Volume) *csi.ListVolumesResponse_Entry {
	return &csi.ListVolumesResponse_Entry{
		Volume: csiconv.Volume(view, v),
		Status: &csi.ListVolumesResponse_VolumeStatus{
			PublishedNodeIds: publishedNodes(v, hidden),
			VolumeCondition:  csiconv.Condition(view.Condition(v)),
		},
	}
}
