package controller

import (
	"context"

	"github.com/holdfast-storage/holdfast/csi/metadata"
	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/fsm"
)

// blockMaps queries hosts for block maps, through whichever member has their session.
type blockMaps struct{ members *session.Members }

// Map implements metadata.Maps.
func (m blockMaps) Map(ctx context.Context, node fsm.NodeID, base, target fsm.SnapshotID, from int64, limit int) (metadata.Page, error) {
	found, err := m.members.Map(ctx, node, base, target, from, limit)
	if err != nil {
		return metadata.Page{}, err
	}
	page := metadata.Page{More: found.More, Reached: found.NextOffset}
	for _, x := range found.Extents {
		page.Extents = append(page.Extents, metadata.Extent{Offset: x.Offset, Length: x.Length})
	}
	return page, nil
}
