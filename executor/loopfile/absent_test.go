package loopfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// S174: a process that starts while the pool is absent adopts, when the pool is back, the device that a container attached whose mount
// is gone.
func TestS174_ADeviceWhoseMountIsGoneIsKnownOnceThePoolIsBack(t *testing.T) {
	_, dir := newPool(t)
	id, through := backendtest.NewID(), filepath.Join(t.TempDir(), filepath.Base(dir))
	require.NoError(t, os.Mkdir(through, 0o700))
	require.NoError(t, unix.Mount(dir, through, "", unix.MS_BIND, ""))
	earlier, err := Open(Config{Dir: through})
	require.NoError(t, err)
	require.NoError(t, earlier.Create(t.Context(), id, 1<<20))
	had, err := earlier.Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.NoError(t, unix.Unmount(through, unix.MNT_DETACH))
	t.Cleanup(func() { _ = earlier.Deactivate(t.Context(), id) })
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	p, err := Open(Config{Dir: dir, KnownID: earlier.ID()})
	require.NoError(t, err)
	d, err := p.Observe(t.Context(), id)
	require.NoError(t, err)
	require.True(t, d.Absent)
	require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
	d, err = p.Observe(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, had.Path, d.Path)
	d, err = p.Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.Equal(t, had.Path, d.Path)
}

// S174: the folder of a pool that is a symbolic link to nothing while the pool is absent is the pool's all the same.
func TestS174_ADeviceIsKnownThroughALinkThatLedNowhere(t *testing.T) {
	before, dir := newPool(t)
	id, link, away := backendtest.NewID(), filepath.Join(t.TempDir(), "link"), dir+"-away"
	require.NoError(t, before.Create(t.Context(), id, 1<<20))
	had, err := before.Activate(t.Context(), id, false)
	require.NoError(t, err)
	t.Cleanup(func() { _ = before.Deactivate(t.Context(), id) })
	require.NoError(t, os.Symlink(dir, link))
	require.NoError(t, os.Rename(dir, away))
	p, err := Open(Config{Dir: link, KnownID: before.ID()})
	require.NoError(t, err)
	d, err := p.Observe(t.Context(), id)
	require.NoError(t, err)
	require.True(t, d.Absent)
	require.NoError(t, os.Rename(away, dir))
	d, err = p.Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.Equal(t, had.Path, d.Path)
}

// S174: a pool may come and go while devices are listed. A list that is older than a device does not take it out of the table: a second one
// would be set up over the same image.
func TestS174_AListThatIsOlderThanADeviceIsNotTakenOver(t *testing.T) {
	var table loopTable
	table.takeOver(0, nil, false) // while the pool was absent
	id, updates := backendtest.NewID(), table.updates
	table.store(id, []loop{{number: 7}})
	table.takeOver(updates, nil, true)
	require.Equal(t, []loop{{number: 7}}, table.byVolume[id])
	require.False(t, table.compared, "it is listed again")
	table.takeOver(table.updates, map[fsm.VolumeID][]loop{id: {{number: 7}}}, true)
	require.True(t, table.compared)
	require.Equal(t, []loop{{number: 7}}, table.byVolume[id])
}
