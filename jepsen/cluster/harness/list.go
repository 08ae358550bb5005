package harness

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// Listed is one volume of ListVolumes.
type Listed struct {
	ID    string
	Size  int64 // bytes
	Nodes []string
}

// List is all pages of ListVolumes at one controller, by volume id.
func (co *CO) List(ctx context.Context) (map[string]Listed, error) {
	var all map[string]Listed
	err := co.atController(ctx, "list volumes", func(ctx context.Context, c csi.ControllerClient) error {
		var err error
		all, err = ListAt(ctx, c)
		return err
	})
	return all, err
}

// ListAt is all pages of ListVolumes at one controller, once.
func ListAt(ctx context.Context, c csi.ControllerClient) (map[string]Listed, error) {
	all := map[string]Listed{}
	for token := ""; ; {
		res, err := c.ListVolumes(ctx, &csi.ListVolumesRequest{StartingToken: token, MaxEntries: 100})
		if err != nil {
			return nil, err
		}
		for _, e := range res.GetEntries() {
			v := e.GetVolume()
			all[v.GetVolumeId()] = Listed{ID: v.GetVolumeId(), Size: v.GetCapacityBytes(), Nodes: e.GetStatus().GetPublishedNodeIds()}
		}
		if token = res.GetNextToken(); token == "" {
			return all, nil
		}
	}
}
