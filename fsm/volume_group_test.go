package fsm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func volumeGroupID(n int) string { return fmt.Sprintf("hg-00000000-0000-4000-8000-%012x", n) }

func createVolumeGroup(n int, volumes ...int) *fsmpb.CreateVolumeGroup {
	return &fsmpb.CreateVolumeGroup{VolumeGroupId: volumeGroupID(n), Name: fmt.Sprint("set-", n), VolumeIds: volumeIDs(volumes...), MaxVolumes: 3}
}

func changedGroup(n int, change func(*fsmpb.CreateVolumeGroup)) *fsmpb.CreateVolumeGroup {
	c := createVolumeGroup(n)
	change(c)
	return c
}

func modifyVolumeGroup(n int, volumes ...int) *fsmpb.ModifyVolumeGroup {
	return &fsmpb.ModifyVolumeGroup{VolumeGroupId: volumeGroupID(n), VolumeIds: volumeIDs(volumes...), MaxVolumes: 3}
}

func volumeIDs(numbers ...int) (ids []string) {
	for _, n := range numbers {
		ids = append(ids, volumeID(n))
	}
	return ids
}

func (w *world) members(n int) (ids []string) {
	w.t.Helper()
	g, ok := w.s.VolumeGroup(VolumeGroupID(volumeGroupID(n)))
	require.True(w.t, ok, "volume group %d", n)
	for _, id := range g.Members {
		ids = append(ids, string(id))
	}
	return ids
}

// ADD-VG-Create-02, -07 to -09, -14 to -16; ADD-VG-Modify-02 to -05, -09 to -12; S106: all or nothing.
func TestVolumeGroups(t *testing.T) {
	w := newWorld(t)
	for n := 1; n <= 5; n++ {
		w.ready(n, create(n))
	}
	w.ok(controller, create(6)) // it is still being made
	w.twice(controller, createVolumeGroup(1))
	require.Empty(t, w.members(1))
	w.twice(controller, createVolumeGroup(2, 2, 1, 2))
	require.Equal(t, volumeIDs(1, 2), w.members(2))
	require.Equal(t, volumeGroupID(2), w.ok(controller, changedGroup(9, func(c *fsmpb.CreateVolumeGroup) { c.Name, c.VolumeIds = "set-2", volumeIDs(1, 2) })).GetVolumeGroupId())
	for name, tc := range map[string]struct {
		change func(*fsmpb.CreateVolumeGroup)
		want   Reason
	}{
		"other volumes": {func(c *fsmpb.CreateVolumeGroup) { c.Name = "set-2" }, Incompatible},
		"other parameters": {func(c *fsmpb.CreateVolumeGroup) {
			c.Name, c.VolumeIds, c.Fingerprint = "set-2", volumeIDs(1, 2), []byte{1}
		}, Incompatible},
		"a taken id":         {func(c *fsmpb.CreateVolumeGroup) { c.VolumeGroupId = volumeGroupID(1) }, Incompatible},
		"an unknown volume":  {func(c *fsmpb.CreateVolumeGroup) { c.VolumeIds = volumeIDs(3, 9) }, NotFound},
		"a member elsewhere": {func(c *fsmpb.CreateVolumeGroup) { c.VolumeIds = volumeIDs(3, 1) }, Precondition},
		"too many":           {func(c *fsmpb.CreateVolumeGroup) { c.VolumeIds, c.MaxVolumes = volumeIDs(3, 4, 5), 2 }, NoCapacity},
		"one being made":     {func(c *fsmpb.CreateVolumeGroup) { c.VolumeIds = volumeIDs(6) }, Busy},
		"no name":            {func(c *fsmpb.CreateVolumeGroup) { c.Name = "" }, Invalid},
		"no id":              {func(c *fsmpb.CreateVolumeGroup) { c.VolumeGroupId = "hgs-1" }, Invalid},
	} {
		t.Run(name, func(t *testing.T) { w.rejected(tc.want, controller, changedGroup(9, tc.change)) })
	}
	w.twice(controller, modifyVolumeGroup(2, 3, 2))
	require.Equal(t, volumeIDs(2, 3), w.members(2))
	w.rejected(NotFound, controller, modifyVolumeGroup(2, 2, 9))
	w.rejected(NotFound, controller, modifyVolumeGroup(8, 2))
	w.rejected(NoCapacity, controller, modifyVolumeGroup(2, 1, 2, 3, 4))
	w.rejected(Invalid, controller, modifyVolumeGroup(1, 2))
	require.Equal(t, volumeIDs(2, 3), w.members(2), "nothing changed")
	require.Empty(t, w.members(1))
	w.twice(controller, modifyVolumeGroup(2))
	require.Empty(t, w.members(2))
	require.Equal(t, Ready{}, w.volume(2).Phase, "what leaves is kept")
}

// S106, ADD-VG-Delete-02, -04 to -06: a member is deleted with its group only, and all of them or none.
func TestDeleteVolumeGroup(t *testing.T) {
	w := newWorld(t)
	for n := 1; n <= 3; n++ {
		w.ready(n, create(n))
	}
	remove := &fsmpb.DeleteVolumeGroup{VolumeGroupId: volumeGroupID(1)}
	w.twice(controller, remove)
	w.ok(controller, createVolumeGroup(1, 1, 2, 3))
	w.rejected(Precondition, controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.ok(controller, publish(2, "n1"))
	w.rejected(InUse, controller, remove)
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(2)})
	w.takeSnapshot(1, 3)
	w.rejected(Precondition, controller, remove)
	w.ok(controller, &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(1)})
	w.rejected(Precondition, controller, &fsmpb.DeleteVolumeGroup{VolumeGroupId: volumeGroupID(1), KeepVolumes: true})
	w.twice(controller, remove)
	_, known := w.s.VolumeGroup(VolumeGroupID(volumeGroupID(1)))
	require.False(t, known)
	for n := 1; n <= 3; n++ {
		require.IsType(t, Deleting{}, w.volume(n).Phase)
		w.report("n1", &fsmpb.Observation{VolumeId: volumeID(n), Fact: &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}})
		_, known := w.s.Volume(VolumeID(volumeID(n)))
		require.False(t, known)
	}
	w.ok(controller, createVolumeGroup(1))
}

// ADD-VGA-Create-04: a new volume joins a group in its own entry.
func TestANewVolumeJoinsAGroup(t *testing.T) {
	w := newWorld(t)
	w.ok(controller, createVolumeGroup(1))
	join := func(n int, group string) *fsmpb.CreateVolume {
		return changed(n, func(c *fsmpb.CreateVolume) { c.VolumeGroup, c.MaxVolumes = group, 2 })
	}
	w.rejected(NotFound, controller, join(1, "set-9"))
	w.twice(controller, join(1, volumeGroupID(1)))
	w.twice(controller, join(2, "set-1"))
	require.Equal(t, volumeIDs(1, 2), w.members(1))
	w.rejected(NoCapacity, controller, join(3, "set-1"))
}

// A group snapshot that names a volume group is of all its members.
func TestAGroupSnapshotOfAVolumeGroup(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.ready(2, create(2))
	w.ok(controller, createVolumeGroup(1, 1, 2))
	of := func(volumes ...int) *fsmpb.CreateGroupSnapshot {
		c := createGroup(1, volumes...)
		c.VolumeGroupId = volumeGroupID(1)
		return c
	}
	w.rejected(Precondition, controller, of(1))
	w.ok(controller, of(1, 2))
	w.ok(controller, of(1, 2))
	other := createGroup(2, 1, 2)
	other.VolumeGroupId = volumeGroupID(9)
	w.rejected(NotFound, controller, other)
}
