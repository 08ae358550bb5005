package lvm

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
)

// refusalReason is why nothing new may be created in a pool that full; empty: it may.
func (u *poolUsage) refusalReason(maxData, maxMetadata int) string {
	switch {
	case u.failed:
		return "the kernel gave it up (" + u.mode + "): repair it with `lvconvert --repair`"
	case u.needsCheck:
		return "its metadata needs a check: deactivate it, and repair it with `lvconvert --repair`"
	case u.mode == "out_of_data_space":
		return "its data space is full"
	case u.mode != "rw":
		return "it is " + u.mode
	case u.metadataPercent() > maxMetadata:
		return fmt.Sprintf("its metadata is used to more than %d %%: make it larger with `lvextend --poolmetadatasize`", maxMetadata)
	case u.dataPercent() > maxData:
		return fmt.Sprintf("its data space is used to more than %d %%: make it larger with `lvextend`", maxData)
	}
	return ""
}

// checkAcceptsNew refuses to create anything new in a pool that would not zero it, that blocks its
// writers when it is full (S12), that is nearly full, or that has thin devices unknown to LVM.
func (t *thinVolumes) checkAcceptsNew(ctx context.Context, state *poolState) error {
	name, usage, err := t.poolDevice()
	switch {
	case err != nil:
		return err
	case !state.zeroesBlocks:
		return fsm.Reject(fsm.Precondition, "pool %s does not zero new blocks, so that a volume would show old data: run `lvchange --zero y %s`", t.name(), t.name())
	case !usage.failed && !(state.errorWhenFull && usage.errorsWhenFull):
		return fsm.Reject(fsm.Precondition, "pool %s hangs its writers when it is full: run `lvchange --errorwhenfull y %s`", t.name(), t.name())
	}
	if reason := usage.refusalReason(t.MaxData, t.MaxMetadata); reason != "" {
		return fsm.Reject(fsm.NoCapacity, "pool %s takes nothing new: %s", t.name(), reason)
	}
	if usage.transaction != state.transaction {
		return fmt.Errorf("pool %s takes nothing new: its metadata is at transaction %d, LVM's is at %d: if this stays, compare the volumes with `thin_ls` and repair by hand",
			t.name(), usage.transaction, state.transaction)
	}
	return t.metadata.checkOrphans(ctx, name, state)
}
