package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const importedUUID = "0f3b8c1a-0000-4000-8000-00000000000a"

// newLVMWorld has a host n1 whose pool is one of LVM's.
func newLVMWorld(t testing.TB) *world {
	w := newWorld(t)
	r := register("n1")
	for _, p := range r.GetPools() {
		p.Backend = lvmBackend
	}
	w.ok("node/n1", r)
	return w
}

func (w *world) importVolume(n int) *fsmpb.ImportVolume {
	node, _ := w.s.Node("n1")
	return &fsmpb.ImportVolume{
		VolumeId: volumeID(n), Name: "data", NodeId: "n1", HostId: "host-n1", PoolId: string(node.Pools[0].ID), DeviceId: "nnggwi-ABJk-wXdF",
		DeviceName: "data_00000", SizeBytes: 20 << 20, FsType: "ext4", FsUuid: importedUUID,
	}
}

func (w *world) importReady(n int) *Volume {
	w.t.Helper()
	w.twice(admin, w.importVolume(n))
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(n), Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 20 << 20}}})
	return w.volume(n)
}

// S15: an imported volume has its content from the first entry on: its host is told of the device, and a stage begins no
// filesystem. It is published as any other.
func TestS15_AnImportedVolumeIsNeverFormatted(t *testing.T) {
	for name, block := range map[string]bool{"a filesystem": false, "raw": true} {
		t.Run(name, func(t *testing.T) {
			w := newLVMWorld(t)
			c := w.importVolume(1)
			want := Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, FSType: "ext4", FSUUID: importedUUID}
			if block {
				c.Block, c.FsType, c.FsUuid = true, "", ""
				want = Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_RAW}
			}
			w.twice(admin, c)
			require.Equal(t, want, w.volume(1).Format)
			d, _ := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
			require.Equal(t, GoalCreate, d.Goal)
			require.Equal(t, c.GetDeviceId(), d.ImportDevice)
			w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 20 << 20}}})
			capability := mount(single)
			if block {
				capability = &fsmpb.Capability{Mode: single, Block: true}
			}
			p := publish(1, "n1")
			p.Capability = capability
			w.ok(controller, p)
			s := w.stage(1, "n1", 1)
			s.Capability = capability
			w.ok("node/n1", s)
			require.Equal(t, want, w.volume(1).Format, "a stage changes nothing of it")
			d, _ = w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
			require.Empty(t, d.ImportDevice, "it is the volume's device by now")
		})
	}
}

// S109: no state has an imported volume on which a filesystem may be made.
func TestS109_AnImportedVolumeThatMayBeFormattedIsNoState(t *testing.T) {
	w := newLVMWorld(t)
	v := *w.importReady(1)
	require.NoError(t, checkFormat(&v))
	for _, f := range []Format{
		{Phase: fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED},
		{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING, FSType: "ext4", FSUUID: importedUUID, Epoch: Epoch{1, 1}},
	} {
		v.Format = f
		require.ErrorContains(t, checkFormat(&v), "S109")
		v.Import = nil
		require.NoError(t, checkFormat(&v))
		v.Import = w.volume(1).Import
	}
}

// S14: what was imported and never became Ready is given back, whoever ends it: nobody asked for the removal of what is on
// it. The volume that was in use is removed with its device only by a deletion, and given back by a forget.
func TestS14_WhatCouldNotBeImportedIsGivenBack(t *testing.T) {
	for name, tc := range map[string]struct {
		end      func(w *world)
		givesUp  bool
		imported bool // it was Ready before
	}{
		"a deletion": {func(w *world) { w.twice(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)}) }, true, false},
		"a refusal of its host": {func(w *world) {
			w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_StepFailed{StepFailed: &fsmpb.StepFailed{Step: "create", Error: "replaced", Final: true, Reason: uint32(Precondition)}}})
		}, true, false},
		"a cancellation": {func(w *world) {
			w.ok(admin, &fsmpb.CancelOperation{OperationId: uint64(w.volume(1).Operation.ID)})
		}, true, false},
		"a device of another size": {func(w *world) {
			w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 20}}})
			if w.volume(1).isCreating() {
				w.ok(admin, &fsmpb.CancelOperation{OperationId: uint64(w.volume(1).Operation.ID)})
			}
		}, true, false},
		"a deletion of a volume that was imported": {func(w *world) { w.twice(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)}) }, false, true},
		"a forget of a volume that was imported": {func(w *world) {
			w.twice(admin, &fsmpb.ForgetImport{VolumeId: volumeID(1), DeviceId: "nnggwi-ABJk-wXdF"})
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLVMWorld(t)
			if tc.imported {
				w.importReady(1)
			} else {
				w.twice(admin, w.importVolume(1))
			}
			tc.end(w)
			d, ok := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
			require.True(t, ok)
			require.Equal(t, GoalRemove, d.Goal)
			require.Equal(t, tc.givesUp, d.ImportDevice != "")
			require.NoError(t, w.s.Check())
			w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}})
			_, known := w.s.Volume(VolumeID(volumeID(1)))
			require.False(t, known)
			w.ok(admin, w.importVolume(2)) // it is free again
		})
	}
}

func TestAnImportIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		reason Reason
		change func(w *world, c *fsmpb.ImportVolume)
	}{
		"another host":                      {StaleEpoch, func(_ *world, c *fsmpb.ImportVolume) { c.HostId = "host-n2" }},
		"no such node":                      {NotFound, func(_ *world, c *fsmpb.ImportVolume) { c.NodeId = "n9" }},
		"no id":                             {Invalid, func(_ *world, c *fsmpb.ImportVolume) { c.VolumeId = "data" }},
		"no name":                           {Invalid, func(_ *world, c *fsmpb.ImportVolume) { c.Name = "" }},
		"an option for a device":            {Invalid, func(_ *world, c *fsmpb.ImportVolume) { c.DeviceName = "-f" }},
		"a path for a device":               {Invalid, func(_ *world, c *fsmpb.ImportVolume) { c.DeviceId = "../x" }},
		"a size that is no size":            {OutOfRange, func(_ *world, c *fsmpb.ImportVolume) { c.SizeBytes = 1<<20 + 512 }},
		"nothing on it":                     {Precondition, func(_ *world, c *fsmpb.ImportVolume) { c.FsType, c.FsUuid = "", "" }},
		"a filesystem without UUID":         {Precondition, func(_ *world, c *fsmpb.ImportVolume) { c.FsUuid = "" }},
		"a filesystem that is none of ours": {Invalid, func(_ *world, c *fsmpb.ImportVolume) { c.FsType = "btrfs" }},
		"raw, with a filesystem":            {Invalid, func(_ *world, c *fsmpb.ImportVolume) { c.Block = true }},
		"a pool of another host":            {NotFound, func(_ *world, c *fsmpb.ImportVolume) { c.PoolId = "hp-none" }},
		"a pool of files": {Precondition, func(w *world, c *fsmpb.ImportVolume) {
			r := register("n1")
			w.ok("node/n1", r)
		}},
		"a name that is taken":                      {Incompatible, func(w *world, c *fsmpb.ImportVolume) { c.Name = create(1).GetName(); w.ok(controller, create(1)) }},
		"an id that is taken":                       {Incompatible, func(w *world, c *fsmpb.ImportVolume) { w.ok(controller, create(1)); c.VolumeId = volumeID(1) }},
		"a device that is a volume by another name": {Incompatible, func(w *world, c *fsmpb.ImportVolume) { w.importReady(1); c.Name = "other" }},
		"a device that is being given back": {Busy, func(w *world, c *fsmpb.ImportVolume) {
			w.importReady(1)
			w.ok(admin, &fsmpb.ForgetImport{VolumeId: volumeID(1), DeviceId: c.GetDeviceId()})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLVMWorld(t)
			c := w.importVolume(7)
			tc.change(w, c)
			w.rejected(tc.reason, admin, c)
		})
	}
	t.Run("by anybody but an operator", func(t *testing.T) {
		w := newLVMWorld(t)
		require.NotNil(t, w.apply(controller, w.importVolume(1)).GetRejection())
	})
}

func TestAForgetIsRefused(t *testing.T) {
	forget := &fsmpb.ForgetImport{VolumeId: volumeID(1), DeviceId: "nnggwi-ABJk-wXdF"}
	for name, tc := range map[string]struct {
		reason Reason
		change func(w *world)
	}{
		"a volume that was not imported": {Precondition, func(w *world) { w.ready(1, create(1)) }},
		"another device":                 {StaleEpoch, func(w *world) { c := w.importVolume(1); c.DeviceId = "other"; w.ok(admin, c) }},
		"a published volume":             {InUse, func(w *world) { w.importReady(1); w.ok(controller, publish(1, "n1")) }},
		"a volume that is being deleted": {Precondition, func(w *world) {
			w.importReady(1)
			w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLVMWorld(t)
			tc.change(w)
			w.rejected(tc.reason, admin, forget)
		})
	}
	w := newLVMWorld(t)
	w.twice(admin, forget) // there is no such volume: it was given back
}
