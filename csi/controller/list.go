package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
)

// maxPage bounds a page in bytes, so that it fits gRPC's 4 MiB even when the caller
// sets no limit: what is left out comes under next_token.
const maxPage = 3 << 20

// ListVolumes lists the volumes that are ready, in order of their ids: those of
// which a caller may have been told. A volume that is deleted leaves the list when
// its name is free (S18).
func (s *Server) ListVolumes(ctx context.Context, req *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	if req.GetMaxEntries() < 0 {
		return nil, rpcerr.Invalid("max_entries is negative")
	}
	page := &page{max: int(req.GetMaxEntries()), bytes: maxPage}
	err := s.read(ctx, func(state *fsm.State) error {
		after, err := parseToken(req.GetStartingToken(), state.Cluster().Incarnation)
		if err == nil {
			page.fill(state, after)
		}
		return err
	})
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return &page.resp, nil
}

// page is one answer being put together.
type page struct {
	resp  csi.ListVolumesResponse
	max   int // entries; 0: no limit
	bytes int // left
}

func (p *page) fill(state *fsm.State, after fsm.VolumeID) {
	last := after
	for v := range state.Volumes(after) {
		if _, ready := v.Phase.(fsm.Ready); !ready {
			continue
		}
		if !p.add(state, v) {
			p.resp.NextToken = token(last, state.Cluster().Incarnation)
			return
		}
		last = v.ID
	}
}

// add is false when the page is full.
func (p *page) add(state *fsm.State, v *fsm.Volume) bool {
	if p.max != 0 && len(p.resp.Entries) >= p.max {
		return false
	}
	entry := &csi.ListVolumesResponse_Entry{
		Volume: volumeOf(state, v),
		Status: &csi.ListVolumesResponse_VolumeStatus{
			PublishedNodeIds: publishedNodes(v),
			VolumeCondition:  conditionOf(state, v),
		},
	}
	const framing = 8 // at most, of one entry in the list
	p.bytes -= proto.Size(entry) + framing
	if p.bytes < 0 && len(p.resp.Entries) > 0 {
		return false
	}
	p.resp.Entries = append(p.resp.Entries, entry)
	return true
}
