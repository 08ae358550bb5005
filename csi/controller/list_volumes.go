package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
)

// maxPageSize bounds a page in bytes, so that it fits gRPC's 4 MiB even when the caller
// sets no limit: the rest follows under next_token.
const maxPageSize = 3 << 20

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
	page := &volumePage{maxEntries: int(req.GetMaxEntries()), bytesLeft: maxPageSize}
	err := s.state.readState(ctx, func(state *fsm.State) error {
		after, err := volumeTokens.decode(req.GetStartingToken(), state.Cluster().Incarnation)
		if err == nil {
			page.collect(state, fsm.VolumeID(after))
		}
		return err
	})
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return page.response(), nil
}

// volumePage is one response being built: the volumes are collected under the state's
// lock and described without it.
type volumePage struct {
	maxEntries int // entries; 0: no limit
	bytesLeft  int // of the page
	volumes    []*fsm.Volume
	view       *fsm.VolumeView
	more       bool // volumes follow those collected
}

// minEntrySize is less than any entry has, in bytes: more entries cannot fit a page.
const minEntrySize = 64

func (p *volumePage) collect(state *fsm.State, after fsm.VolumeID) {
	limit := maxPageSize / minEntrySize
	if p.maxEntries != 0 {
		limit = min(limit, p.maxEntries)
	}
	for v := range state.KnownVolumes(after) {
		if len(p.volumes) == limit {
			p.more = true
			break
		}
		p.volumes = append(p.volumes, v)
	}
	p.view = state.VolumeView(p.volumes...)
}

// response describes the volumes; where it ends before the last one it has a token.
func (p *volumePage) response() *csi.ListVolumesResponse {
	resp := &csi.ListVolumesResponse{}
	for _, v := range p.volumes {
		entry := p.entry(v)
		const framing = 8 // at most, of one entry in the list
		p.bytesLeft -= proto.Size(entry) + framing
		if p.bytesLeft < 0 && len(resp.Entries) > 0 {
			p.more = true
			break
		}
		resp.Entries = append(resp.Entries, entry)
	}
	if p.more {
		resp.NextToken = volumeTokens.encode(string(p.volumes[len(resp.Entries)-1].ID), p.view.Incarnation())
	}
	return resp
}

func (p *volumePage) entry(v *fsm.Volume) *csi.ListVolumesResponse_Entry {
	return &csi.ListVolumesResponse_Entry{
		Volume: describeVolume(p.view, v),
		Status: &csi.ListVolumesResponse_VolumeStatus{
			PublishedNodeIds: publishedNodes(v),
			VolumeCondition:  csiconv.Condition(p.view.Condition(v)),
		},
	}
}
