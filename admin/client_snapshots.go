package admin

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// Snapshots reads all pages; the index of the answer is the last page's.
func (c *Client) Snapshots(ctx context.Context, req *adminpb.SnapshotsRequest) (*adminpb.SnapshotsResponse, error) {
	var all *adminpb.SnapshotsResponse
	err := c.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) error {
		all = &adminpb.SnapshotsResponse{}
		page := proto.CloneOf(req)
		for page.PageSize = maxPage; ; {
			resp, err := api.Snapshots(ctx, page)
			if err != nil {
				return err
			}
			all.Index, all.Snapshots = resp.GetIndex(), append(all.Snapshots, resp.GetSnapshots()...)
			if page.After = resp.GetNext(); page.GetAfter() == "" {
				return nil
			}
		}
	})
	return all, err
}

// GroupSnapshots reads all pages; the index of the answer is the last page's.
func (c *Client) GroupSnapshots(ctx context.Context, req *adminpb.GroupSnapshotsRequest) (*adminpb.GroupSnapshotsResponse, error) {
	var all *adminpb.GroupSnapshotsResponse
	err := c.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) error {
		all = &adminpb.GroupSnapshotsResponse{}
		page := proto.CloneOf(req)
		for page.PageSize = maxPage; ; {
			resp, err := api.GroupSnapshots(ctx, page)
			if err != nil {
				return err
			}
			all.Index, all.Groups = resp.GetIndex(), append(all.Groups, resp.GetGroups()...)
			if page.After = resp.GetNext(); page.GetAfter() == "" {
				return nil
			}
		}
	})
	return all, err
}
