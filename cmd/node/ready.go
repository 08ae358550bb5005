package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/csi/identity"
)

// ready returns why this node is not ready, nil when it is. When all its pools are missing, waiting
// does not help: the error then wraps identity.ErrUnhealthy.
func (n *node) ready() error {
	var missing []error
	for _, pool := range n.components.pools {
		if err := pool.checkUsable(); err != nil {
			missing = append(missing, err)
		}
	}
	if len(missing) == len(n.components.pools) {
		return fmt.Errorf("%w: %w", identity.ErrUnhealthy, errors.Join(missing...))
	}
	return n.client.Err()
}

// checkPoolFolder fails when the pool's directory of volumes is missing, as when its filesystem is not mounted.
func checkPoolFolder(pool string) error {
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
