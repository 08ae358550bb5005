package scenarios

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// awaitKept waits until the log has a kept copy of each volume on the host, and an audit finds nothing
// that is not in the log (S49).
func (w *env) awaitKept(t *testing.T, node string, volumes ...*volume) {
	t.Helper()
	for _, v := range volumes {
		eventually(t, timeout, "what "+v.name+" lost is on record", func(ctx context.Context) error {
			var said struct {
				Snapshots []struct {
					Node  string `json:"node"`
					Phase string `json:"phase"`
				} `json:"snapshots"`
			}
			if err := w.cluster.Ask(ctx, &said, "volumes", "kept", v.id); err != nil {
				return err
			}
			if n := len(said.Snapshots); n != 1 || said.Snapshots[0].Node != node || said.Snapshots[0].Phase != "ready" {
				return fmt.Errorf("the log has %+v", said.Snapshots)
			}
			return nil
		})
	}
	eventually(t, timeout, "an audit finds nothing", func(ctx context.Context) error {
		out, code, err := w.cluster.Admin(ctx, "audit")
		if err != nil || code != 0 {
			return fmt.Errorf("audit: exit code %d: %s: %w", code, strings.TrimSpace(out), err)
		}
		return nil
	})
}
