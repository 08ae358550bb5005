package mount

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// formatTimeout bounds one run of mkfs.
const formatTimeout = 5 * time.Minute

// Format creates the filesystem with the UUID that the log chose, so that it is recognised even if
// this process dies meanwhile (S15). Unless again is set, mkfs itself also refuses a device with
// any content that it knows.
func (m *Mounter) Format(ctx context.Context, device string, format executor.Filesystem, again bool) error {
	command, err := formatCommand(device, format, again)
	if err != nil {
		return err
	}
	select {
	case m.formatSlots <- struct{}{}:
		defer func() { <-m.formatSlots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err = m.runner.Run(ctx, command)
	return err
}

// formatCommand lets the kernel do lazily what it can, and does not discard: the image is a hole.
// No blocks are reserved for root: a volume has one user.
func formatCommand(device string, format executor.Filesystem, again bool) (run.Command, error) {
	c := run.Command{Timeout: formatTimeout}
	var force string
	switch format.Type {
	case "ext4":
		c.Tool, force = "mkfs.ext4", "-F"
		c.Args = []string{"-q", "-U", format.UUID, "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"}
	case "xfs":
		c.Tool, force = "mkfs.xfs", "-f"
		c.Args = []string{"-q", "-K", "-m", "uuid=" + format.UUID}
	default:
		return c, fsm.Reject(fsm.Invalid, "the filesystem %q is not one of ext4 and xfs", format.Type)
	}
	if again {
		c.Args = append(c.Args, force)
	}
	c.Args = append(c.Args, "--", device)
	return c, nil
}
