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
	if err := s.serves(csi.ControllerServiceCapability_RPC_LIST_VOLUMES); err != nil {
		return nil, err
	}
	if req.GetMaxEntries() < 0 {
		return nil, rpcerr.Invalid("max_entries is negative")
	}
	page := &page{max: int(req.GetMaxEntries()), bytes: maxPage}
	err := s.read(ctx, func(state *fsm.State) error {
		after, err := volumeList.parse(req.GetStartingToken(), state.Cluster().Incarnation)
		if err == nil {
			page.collect(state, fsm.VolumeID(after))
		}
		return err
	})
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return page.describe(), nil
}

// page is one answer being put together: the volumes are collected under the
// state's lock and described without it.
type page struct {
	max     int // entries; 0: no limit
	bytes   int // left
	volumes []*fsm.Volume
	hosts   *hosts
	more    bool // volumes follow those collected
}

// leastEntry is less than any entry has, in bytes: more cannot fit a page.
const leastEntry = 64

func (p *page) collect(state *fsm.State, after fsm.VolumeID) {
	most := maxPage / leastEntry
	if p.max != 0 {
		most = min(most, p.max)
	}
	for v := range state.Volumes(after) {
		if _, ready := v.Phase.(fsm.Ready); !ready {
			continue
		}
		if len(p.volumes) == most {
			p.more = true
			break
		}
		p.volumes = append(p.volumes, v)
	}
	p.hosts = hostsOf(state, p.volumes...)
}

// describe is the answer; where it ends before the last volume it has a token.
func (p *page) describe() *csi.ListVolumesResponse {
	resp := &csi.ListVolumesResponse{}
	for _, v := range p.volumes {
		entry := p.entry(v)
		const framing = 8 // at most, of one entry in the list
		p.bytes -= proto.Size(entry) + framing
		if p.bytes < 0 && len(resp.Entries) > 0 {
			p.more = true
			break
		}
		resp.Entries = append(resp.Entries, entry)
	}
	if p.more {
		resp.NextToken = volumeList.token(string(p.volumes[len(resp.Entries)-1].ID), p.hosts.incarnation)
	}
	return resp
}

func (p *page) entry(v *fsm.Volume) *csi.ListVolumesResponse_Entry {
	return &csi.ListVolumesResponse_Entry{
		Volume: p.hosts.volume(v),
		Status: &csi.ListVolumesResponse_VolumeStatus{
			PublishedNodeIds: publishedNodes(v),
			VolumeCondition:  p.hosts.condition(v),
		},
	}
}
