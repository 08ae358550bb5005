package faults

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// diskFull fills a controller's disk: nearly, so that its guard must see it, or quite.
func diskFull(ctx context.Context, s *Scene) (*Injection, error) {
	m, leave := s.leaderOrAny(ctx), pick(s, []int64{0, 64 << 10, 4 * harness.Mi})
	if err := m.Disk().Fill(leave); err != nil {
		return nil, err
	}
	return &Injection{Member: m.ID, Said: fmt.Sprintf("filled the disk of %s but for %d KiB", m.ID, leave>>10), End: func(context.Context) (string, error) {
		return "its room is given back", m.Disk().Free()
	}}, nil
}
