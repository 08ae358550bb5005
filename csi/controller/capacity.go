package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
)

// GetCapacity is what new volumes could still reserve, in all pools of the topology
// together, and the sizes that one volume could have, by the reservations and by what is
// free now; with two replicas, what two hosts can hold. Where no volume with the
// capabilities can be created at all, the capacity is 0.
func (s *Server) GetCapacity(ctx context.Context, req *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	if err := s.enabled.checkEnabled(csi.ControllerServiceCapability_RPC_GET_CAPACITY); err != nil {
		return nil, err
	}
	terms, err := parseOptionalTopology(req.GetAccessibleTopology())
	if err != nil {
		return nil, rpcerr.From(err)
	}
	p, err := parseParameters(s.client.Site(), req.GetParameters())
	if err != nil {
		return nil, rpcerr.From(err)
	}
	capabilities, possible, err := capabilitiesForCapacity(req.GetVolumeCapabilities(), &p)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	var facts fsm.Facts
	if s.poolFacts != nil {
		facts = fsm.FactsOf(s.poolFacts(ctx))
	}
	var largest, total int64
	err = s.state.readState(ctx, func(state *fsm.State) error {
		largest, total = state.Through(s.client.Site()).Available(p.sitesOf(), terms, p.replicas, facts)
		if p.encrypted {
			largest, total = fsm.WithoutHeader(largest), fsm.WithoutHeader(total)
		}
		return nil
	})
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return capacityResponse(largest, total, fsm.MinSize(capabilities), possible), nil
}

func capacityResponse(largest, total, minSize int64, possible bool) *csi.GetCapacityResponse {
	if !possible || largest < minSize {
		return &csi.GetCapacityResponse{}
	}
	return &csi.GetCapacityResponse{
		AvailableCapacity: max(total, 0),
		MaximumVolumeSize: wrapperspb.Int64(largest),
		MinimumVolumeSize: wrapperspb.Int64(minSize),
	}
}

// parseOptionalTopology: a topology without segments is no condition.
func parseOptionalTopology(t *csi.Topology) ([]fsm.Topology, error) {
	term, err := csiconv.ParseTopology(t)
	if err != nil || len(term) == 0 {
		return nil, err
	}
	return []fsm.Topology{term}, nil
}

// capabilitiesForCapacity reads the capabilities of volumes to be created. A malformed
// one is an error; well-formed ones that no volume can have together are not possible.
func capabilitiesForCapacity(requested []*csi.VolumeCapability, p *parameters) (all []fsm.Capability, possible bool, err error) {
	for _, a := range requested {
		if _, err := csiconv.ParseCapability(a); err != nil {
			return nil, false, err
		}
	}
	if len(requested) == 0 { // the one that the parameters alone describe
		c, err := p.withFSType(fsm.Capability{})
		return []fsm.Capability{c}, true, err
	}
	all, err = parseCreateCapabilities(requested, p)
	return all, err == nil, nil
}
