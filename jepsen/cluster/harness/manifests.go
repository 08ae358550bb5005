package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// AwaitManifest waits until a node has kept what the log says of a volume or snapshot. The log answers who had it made before its
// host hears that it is ready: one whose log is lost between the two is an orphan on its host, which no host can say more of.
func (h *hostView) AwaitManifest(ctx context.Context, node, id string) error {
	l, err := h.Layout()
	if err != nil {
		return err
	}
	path := filepath.Join(l.DataDir(node), "manifests", id+".rec")
	return Poll(ctx, Patience, fmt.Sprintf("node %s to keep what the log says of %s", node, id), func() (bool, error) {
		content, err := os.ReadFile(path)
		return bytes.Contains(content, []byte(id)), err
	})
}
