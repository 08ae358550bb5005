package controller

import (
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/csi/identity"
	"github.com/holdfast-storage/holdfast/raftnode"
)

// health says why this controller does not serve. A cause that does not pass by itself (a
// member that diverged, a full disk) wraps identity.ErrUnhealthy.
func (c *cluster) health() error {
	err := c.Ready()
	if errors.Is(err, raftnode.ErrDiverged) || errors.Is(err, raftnode.ErrDiskFull) {
		return fmt.Errorf("%w: %w", identity.ErrUnhealthy, err)
	}
	return err
}
