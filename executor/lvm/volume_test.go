package lvm

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// A new volume that has blocks is a thin device that LVM lost: it is neither used nor removed.
func TestANewVolumeWithDataIsNotMarkedReady(t *testing.T) {
	p, f := newFakePool(t)
	id := fsm.VolumeID("hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99")
	f.outputs[dmName("vg-a", string(id))] = "thin 384 383"
	require.ErrorIs(t, p.Create(t.Context(), id, 1<<20), errOrphan)
	require.Equal(t, []string{"lvcreate"}, f.changes(), "neither finished nor removed")
	f.outputs[dmName("vg-a", string(testUnfinishedID))] = "thin 384 383"
	f.devices[dmName("vg-a", string(testUnfinishedID))] = &dmDevice{}
	require.ErrorIs(t, p.Remove(t.Context(), testUnfinishedID), errOrphan)
	require.NotContains(t, f.changes(), "lvremove")
}

func TestS19_ACancelledSnapshotIsRemovedAndNeverReady(t *testing.T) {
	p, f := newFakePool(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.after = func(command string) {
		if command == "lvm lvcreate" {
			cancel() // the freeze ends while LVM works
		}
	}
	err := p.TakeSnapshot(ctx, testVolumeID, "hs-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99", nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"lvcreate", "lvremove"}, f.changes())
}

func TestExistingVolumesAreAdoptedWithoutACommand(t *testing.T) {
	p, f := newFakePool(t)
	for range 2 {
		require.NoError(t, p.Create(t.Context(), testVolumeID, 16781312))
		require.Equal(t, fsm.Incompatible, reason(p.Create(t.Context(), testVolumeID, 16<<20)))
		require.NoError(t, p.TakeSnapshot(t.Context(), testVolumeID, testSnapshotID, nil))
		require.NoError(t, p.TakeSnapshot(t.Context(), "hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99", testSnapshotID, nil), "also when its source is gone")
		require.NoError(t, p.Expand(t.Context(), testVolumeID, 1<<20))
	}
	require.Empty(t, f.changes())
}

func TestAnAttachedVolumeIsNotRemoved(t *testing.T) {
	p, f := newFakePool(t)
	f.devices[p.layerName(testVolumeID)] = &dmDevice{major: 254, minor: 7, open: 1}
	for range 2 {
		require.Equal(t, fsm.InUse, reason(p.Remove(t.Context(), testVolumeID)))
		require.Equal(t, fsm.Busy, reason(p.Deactivate(t.Context(), testVolumeID)))
	}
	require.Empty(t, f.changes())
}

func TestLVMRefusalsBecomeRejections(t *testing.T) {
	full := &run.Error{Tool: "lvm", Code: 5, Output: "Cannot create new thin volume, free space in thin pool vg-a/pool reached threshold."}
	p, f := newFakePool(t)
	f.failures["lvm lvcreate"] = full
	require.Equal(t, fsm.NoCapacity, reason(p.Create(t.Context(), "hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99", 1<<20)))
	f.failures["lvm lvremove"] = &run.Error{Tool: "lvm", Code: 5, Output: "Logical volume vg-a/x is used by another device."}
	require.Equal(t, fsm.InUse, reason(p.Remove(t.Context(), testVolumeID)))
	f.failures["lvm lvremove"] = &run.Error{Tool: "lvm", Code: 5, Output: `Failed to find logical volume "vg-a/x"`}
	require.NoError(t, p.Remove(t.Context(), testVolumeID), "a missing volume counts as removed")
}
