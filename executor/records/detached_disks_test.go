package records

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// S9, S67: a later process of the same boot knows what was detached; after a boot nothing is.
func TestDetachedDisksAreThoseOfABoot(t *testing.T) {
	dir := t.TempDir()
	const a, b = fsm.VolumeID("a"), fsm.VolumeID("b")
	open := func(boot string) *DetachedDisks {
		d, err := OpenDetachedDisks(dir, boot)
		require.NoError(t, err)
		return d
	}
	d := open("first")
	require.Zero(t, d.Attachment(a))
	for range 2 {
		require.NoError(t, d.Record(a, 3))
	}
	require.NoError(t, d.Record(b, 0))
	again := open("first")
	require.Equal(t, []uint64{3, 0}, []uint64{again.Attachment(a), again.Attachment(b)})
	require.NoError(t, again.Record(a, 4))
	require.Equal(t, uint64(4), open("first").Attachment(a))
	require.NoError(t, open("first").Forget(a, 5))
	require.Equal(t, uint64(4), open("first").Attachment(a), "an earlier attachment")
	for range 2 {
		require.NoError(t, open("first").Forget(a, 4))
		require.Zero(t, open("first").Attachment(a))
	}
	require.NoError(t, open("first").Record(a, 4))
	require.Zero(t, open("second").Attachment(a))
	require.NoError(t, open("second").Record(b, 1))
	require.Zero(t, open("second").Attachment(a))
}

// What is not on disk does not count as recorded, so that it is recorded when it is asked for again.
func TestADetachedDiskThatIsNotRecordedIsRecordedLater(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDetachedDisks(dir, "first")
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(d.file.path, 0o700)) // in the file's place
	require.Error(t, d.Record("a", 3))
	require.NoError(t, os.Remove(d.file.path))
	require.NoError(t, d.Record("a", 3))
	require.NoError(t, os.Rename(d.file.path, d.file.path+".away"))
	require.NoError(t, os.Mkdir(d.file.path, 0o700))
	require.Error(t, d.Forget("a", 3))
	require.Equal(t, uint64(3), d.Attachment("a"), "it is forgotten when it is asked for again")
	require.NoError(t, os.Remove(d.file.path))
	require.NoError(t, os.Rename(d.file.path+".away", d.file.path))
	again, err := OpenDetachedDisks(dir, "first")
	require.NoError(t, err)
	require.Equal(t, uint64(3), again.Attachment("a"))
}
