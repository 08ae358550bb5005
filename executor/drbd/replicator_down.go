package drbd

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Down removes the resource from the kernel. The tool itself would take down a primary whose
// device is not open, and would outdate a connected replica; Down prevents both.
func (r *Replicator) Down(ctx context.Context, id fsm.VolumeID) error {
	if !id.Valid() {
		return fsm.Reject(fsm.NotFound, "take down: %q is no volume", id)
	}
	if err := r.steps.slots.claim(id, "take down"); err != nil {
		return err
	}
	s := &step{runner: r.steps, id: id, action: "take down"}
	defer s.end()
	minor, found, err := r.kernel.minor(ctx, id)
	if err != nil || !found {
		return err
	}
	t, err := r.kernel.readProc()
	if err != nil {
		return fmt.Errorf("take down %s: %w", id, err)
	}
	var d procDevice
	if minor != 0 { // 0: it has none. No volume has minor 0, but a resource of others may
		d = t.devices[minor]
	}
	if d.primary() {
		return s.reject(fsm.Busy, "it is primary")
	}
	if !d.standAlone() && d.connection != "" {
		if err := s.disconnectByAddress(ctx); err != nil {
			return err
		}
	}
	err = s.runTool(ctx, "drbdsetup", "down", string(id))
	r.kernel.forgetOwner(minor)
	return classifyError(s.action, id, err)
}
