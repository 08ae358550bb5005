package node

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/csi/identity"
)

// ready says why this node does not serve. Without its pool it never will, however
// long one waits: the error then wraps identity.ErrUnhealthy.
func (n *node) ready() error {
	if err := usable(n.poolDir); err != nil {
		return fmt.Errorf("%w: %w", identity.ErrUnhealthy, err)
	}
	return n.client.Err()
}

// usable tells whether the pool's folder of volumes can be read.
func usable(pool string) error {
	path := filepath.Join(pool, "volumes")
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no folder", path)
	}
	if err != nil {
		return fmt.Errorf("the pool is missing: %w", err)
	}
	return nil
}
