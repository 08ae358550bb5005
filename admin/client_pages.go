package admin

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// readPages reads page after page, each after the id at which the last one ended, until there is none. With
// each controller that is tried it begins anew.
func (c *Client) readPages(ctx context.Context, begin func(), page func(ctx context.Context, api adminpb.AdminClient, after string) (next string, err error)) error {
	return c.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) error {
		begin()
		for after := ""; ; {
			next, err := page(ctx, api, after)
			if err != nil || next == "" {
				return err
			}
			after = next
		}
	})
}

// Volumes reads all pages; the index of the answer is the last page's.
func (c *Client) Volumes(ctx context.Context, req *adminpb.VolumesRequest) (*adminpb.VolumesResponse, error) {
	var all *adminpb.VolumesResponse
	page := proto.CloneOf(req)
	page.PageSize = maxPage
	err := c.readPages(ctx, func() { all = &adminpb.VolumesResponse{} }, func(ctx context.Context, api adminpb.AdminClient, after string) (string, error) {
		page.After = after
		resp, err := api.Volumes(ctx, page)
		all.Index, all.Volumes = resp.GetIndex(), append(all.Volumes, resp.GetVolumes()...)
		return resp.GetNext(), err
	})
	return all, err
}

// Snapshots reads all pages; the index of the answer is the last page's.
func (c *Client) Snapshots(ctx context.Context, req *adminpb.SnapshotsRequest) (*adminpb.SnapshotsResponse, error) {
	var all *adminpb.SnapshotsResponse
	page := proto.CloneOf(req)
	page.PageSize = maxPage
	err := c.readPages(ctx, func() { all = &adminpb.SnapshotsResponse{} }, func(ctx context.Context, api adminpb.AdminClient, after string) (string, error) {
		page.After = after
		resp, err := api.Snapshots(ctx, page)
		all.Index, all.Snapshots = resp.GetIndex(), append(all.Snapshots, resp.GetSnapshots()...)
		return resp.GetNext(), err
	})
	return all, err
}

// GroupSnapshots reads all pages; the index of the answer is the last page's.
func (c *Client) GroupSnapshots(ctx context.Context, req *adminpb.GroupSnapshotsRequest) (*adminpb.GroupSnapshotsResponse, error) {
	var all *adminpb.GroupSnapshotsResponse
	page := proto.CloneOf(req)
	page.PageSize = maxPage
	err := c.readPages(ctx, func() { all = &adminpb.GroupSnapshotsResponse{} }, func(ctx context.Context, api adminpb.AdminClient, after string) (string, error) {
		page.After = after
		resp, err := api.GroupSnapshots(ctx, page)
		all.Index, all.Groups = resp.GetIndex(), append(all.Groups, resp.GetGroups()...)
		return resp.GetNext(), err
	})
	return all, err
}

// VolumeGroups reads all pages; the index of the answer is the last page's.
func (c *Client) VolumeGroups(ctx context.Context, req *adminpb.VolumeGroupsRequest) (*adminpb.VolumeGroupsResponse, error) {
	var all *adminpb.VolumeGroupsResponse
	page := proto.CloneOf(req)
	page.PageSize = maxPage
	err := c.readPages(ctx, func() { all = &adminpb.VolumeGroupsResponse{} }, func(ctx context.Context, api adminpb.AdminClient, after string) (string, error) {
		page.After = after
		resp, err := api.VolumeGroups(ctx, page)
		all.Index, all.Groups = resp.GetIndex(), append(all.Groups, resp.GetGroups()...)
		return resp.GetNext(), err
	})
	return all, err
}
