package loop

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// Log is what the loop asks of the controllers. All answers are linearizable.
type Log interface {
	// Nodes returns every node, with why it must not stop.
	Nodes(ctx context.Context) ([]*adminpb.Node, error)
	Volumes(ctx context.Context) ([]*adminpb.Volume, error)
	Members(ctx context.Context) ([]*adminpb.Member, error)
	// OutOfService returns nil for a node that the log does not know.
	OutOfService(ctx context.Context, node string) (*adminpb.OutOfServiceResponse, error)
	// SetOutOfService takes a node out, or returns it. FailedPrecondition: it may not.
	SetOutOfService(ctx context.Context, req *adminpb.SetOutOfServiceRequest) error
}

// Controllers are the Log by the operators' API.
type Controllers struct{ *admin.Client }

// Nodes returns every node.
func (c Controllers) Nodes(ctx context.Context) (nodes []*adminpb.Node, err error) {
	return nodes, c.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) error {
		resp, err := api.Nodes(ctx, &adminpb.NodesRequest{StopReasons: true})
		nodes = resp.GetNodes()
		return err
	})
}

// Volumes returns every volume.
func (c Controllers) Volumes(ctx context.Context) ([]*adminpb.Volume, error) {
	resp, err := c.Client.Volumes(ctx, &adminpb.VolumesRequest{})
	return resp.GetVolumes(), err
}

// Members returns every controller.
func (c Controllers) Members(ctx context.Context) (members []*adminpb.Member, err error) {
	return members, c.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) error {
		resp, err := api.Members(ctx, &adminpb.MembersRequest{})
		members = resp.GetMembers()
		return err
	})
}

// OutOfService asks about one node.
func (c Controllers) OutOfService(ctx context.Context, node string) (resp *adminpb.OutOfServiceResponse, err error) {
	err = c.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
		resp, err = api.OutOfService(ctx, &adminpb.OutOfServiceRequest{Node: node})
		return err
	})
	if status.Code(err) == codes.NotFound {
		return nil, nil
	}
	return resp, err
}

// SetOutOfService changes one node.
func (c Controllers) SetOutOfService(ctx context.Context, req *adminpb.SetOutOfServiceRequest) error {
	return c.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) error {
		_, err := api.SetOutOfService(ctx, req)
		return err
	})
}
