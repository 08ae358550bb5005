package admin

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// OutOfService says what holds of a node, after a linearizable read; it changes nothing.
func (s *Server) OutOfService(ctx context.Context, req *adminpb.OutOfServiceRequest) (*adminpb.OutOfServiceResponse, error) {
	st, err := s.fork(ctx, false)
	if err != nil {
		return nil, err
	}
	x, rej := st.OutOfService(fsm.NodeID(req.GetNode()))
	if rej != nil {
		return nil, s.Error(rej)
	}
	return outOfServiceView(&x), nil
}

// SetOutOfService takes a node out of service, or returns it. The answer is of after that.
func (s *Server) SetOutOfService(ctx context.Context, req *adminpb.SetOutOfServiceRequest) (*adminpb.OutOfServiceResponse, error) {
	if (req.GetHostId() == "") == (req.GetReturned() == 0) {
		return nil, status.Error(codes.InvalidArgument, "name the host that is taken out of service, or the index since which the node that returns was")
	}
	c, err := s.newKeptCall(ctx, req.GetReason())
	if err != nil {
		return nil, err
	}
	_, err = s.Cluster.Propose(ctx, c.stamp(&fsmpb.Command{Body: &fsmpb.Command_SetOutOfService{SetOutOfService: &fsmpb.SetOutOfService{
		NodeId: req.GetNode(), HostId: req.GetHostId(), Returned: req.GetReturned(),
	}}}))
	if err != nil {
		return nil, s.Error(err)
	}
	return s.OutOfService(ctx, &adminpb.OutOfServiceRequest{Node: req.GetNode()})
}

func outOfServiceView(x *fsm.OutOfService) *adminpb.OutOfServiceResponse {
	resp := &adminpb.OutOfServiceResponse{
		Index: x.Index, Node: string(x.Node), HostId: string(x.Host), State: x.State.String(), Since: x.Since,
		Proven: x.Since != 0 && len(x.Waits) == 0,
	}
	if x.Since != 0 {
		resp.ReturnWaits = x.ReturnWaits
	}
	resp.Refused, resp.Waits = listed(x.Refused, &resp.More), listed(x.Waits, &resp.More)
	resp.Ended = mapSlice(listed(x.Ended, &resp.More), func(e fsm.WritesEnded) *adminpb.WritesEnded {
		return &adminpb.WritesEnded{Volume: string(e.Volume.ID), Generation: e.Generation, Witness: string(e.Witness), Reason: e.Reason}
	})
	return resp
}
