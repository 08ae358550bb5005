package controller

import (
	"context"

	"github.com/holdfast-storage/holdfast/csi/metadata"
	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/fsm"
)

// maps asks hosts for block maps, through whichever member has their session.
type maps struct{ monitor *session.Monitor }

// Map is metadata.Maps'.
func (m maps) Map(ctx context.Context, node fsm.NodeID, base, target fsm.SnapshotID, from int64, limit int) ([]metadata.Extent, bool, error) {
	found, more, err := m.monitor.Map(ctx, node, base, target, from, limit)
	if err != nil {
		return nil, false, err
	}
	extents := make([]metadata.Extent, 0, len(found))
	for _, x := range found {
		extents = append(extents, metadata.Extent{Offset: x.Offset, Length: x.Length})
	}
	return extents, more, nil
}
