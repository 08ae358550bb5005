package controller

import (
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/csi/identity"
	"github.com/holdfast-storage/holdfast/raftnode"
)

// health says why this controller does not serve. What time does not mend, a member
// that stands alone with its state or whose disk is full, wraps identity.ErrUnhealthy.
func (c *cluster) health() error {
	err := c.Ready()
	if errors.Is(err, raftnode.ErrDiverged) || errors.Is(err, raftnode.ErrDiskFull) {
		return fmt.Errorf("%w: %w", identity.ErrUnhealthy, err)
	}
	return err
}
