package harness

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// ListedVolume is one volume of ListVolumes.
type ListedVolume struct {
	ID    string
	Size  int64 // bytes
	Nodes []string
}

// List is all pages of ListVolumes at one controller, by volume id.
func (co *CO) List(ctx context.Context) (map[string]ListedVolume, error) {
	var all map[string]ListedVolume
	err := co.atController(ctx, "list volumes", func(ctx context.Context, c csi.ControllerClient) error {
		var err error
		all, err = ListAt(ctx, c)
		return err
	})
	return all, err
}

// ListAt is all pages of ListVolumes at one controller, once.
func ListAt(ctx context.Context, c csi.ControllerClient) (map[string]ListedVolume, error) {
	all := map[string]ListedVolume{}
	for token := ""; ; {
		res, err := c.ListVolumes(ctx, &csi.ListVolumesRequest{StartingToken: token, MaxEntries: 100})
		if err != nil {
			return nil, err
		}
		for _, e := range res.GetEntries() {
			v := e.GetVolume()
			all[v.GetVolumeId()] = ListedVolume{ID: v.GetVolumeId(), Size: v.GetCapacityBytes(), Nodes: e.GetStatus().GetPublishedNodeIds()}
		}
		if token = res.GetNextToken(); token == "" {
			return all, nil
		}
	}
}

// Snapshots are the ids of all snapshots that belong to no group.
func (co *CO) Snapshots(ctx context.Context) (ids []string, err error) {
	err = co.atController(ctx, "list snapshots", func(ctx context.Context, c csi.ControllerClient) error {
		ids = nil
		res, err := c.ListSnapshots(ctx, &csi.ListSnapshotsRequest{})
		for _, e := range res.GetEntries() {
			if e.GetSnapshot().GetGroupSnapshotId() == "" {
				ids = append(ids, e.GetSnapshot().GetSnapshotId())
			}
		}
		return err
	})
	return ids, err
}
