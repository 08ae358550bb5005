package loopfile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// An observation that began before a device was set up does not drop it from the table: it would
// be set up a second time, and two devices on one image do not see each other's writes.
func TestALoopDeviceAttachedDuringObserveIsNotForgotten(t *testing.T) {
	const id = fsm.VolumeID("hf-0b7a9a3e-4f5c-4d6e-8f70-8192a3b4c5d6")
	l := &loopTable{scanned: true}
	made := []loop{{number: 7, file: inode{dev: 1, ino: 2}}}
	before := l.updates
	l.store(id, made)
	l.storeIfUnchanged(id, before, nil)
	require.Equal(t, made, l.byVolume[id])
	l.storeIfUnchanged(id, l.updates, nil)
	require.Empty(t, l.byVolume, "one that is gone is forgotten")
}

// Nor does it drop one that was removed and set up again during the observation: the kernel gives
// it the number that has just become free.
func TestALoopDeviceReattachedDuringObserveIsNotForgotten(t *testing.T) {
	const id = fsm.VolumeID("hf-0b7a9a3e-4f5c-4d6e-8f70-8192a3b4c5d6")
	l := &loopTable{scanned: true}
	made := []loop{{number: 7, file: inode{dev: 1, ino: 2}}}
	l.store(id, made)
	before := l.updates
	l.store(id, nil)
	l.store(id, made)
	l.storeIfUnchanged(id, before, nil) // it was free when it was looked at
	require.Equal(t, made, l.byVolume[id])
}
