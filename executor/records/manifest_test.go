package records

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// requireManifestText saves a manifest, requires its text on the disk, and reads it back; twice.
func requireManifestText[ID ManifestID](t *testing.T, dir string, m Manifest[ID], want string) {
	t.Helper()
	for range 2 {
		require.NoError(t, m.Save(dir))
		_, text, err := openSlotFile(manifestPath(dir, m.ID))
		require.NoError(t, err)
		require.Equal(t, want, string(text))
		read, err := ReadManifest(dir, m.ID)
		require.NoError(t, err)
		require.Equal(t, m, read)
		all, err := Manifests[ID](dir)
		require.NoError(t, err)
		require.Equal(t, []Manifest[ID]{m}, all, "those of other kinds are not among them")
	}
}

func manifestsFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, manifestsDir), 0o700))
	return dir
}

// S1: what hosts have on their disks is read by each later build.
func TestS1_ManifestsAreKeptAsTheyWere(t *testing.T) {
	dir := manifestsFolder(t)
	const volume, snapshot = "hf-00000000-0000-4000-8000-000000000001", "hs-00000000-0000-4000-8000-000000000002"
	at := fsm.Epoch{Incarnation: 2, Index: 7}
	requireManifestText(t, dir, Manifest[fsm.VolumeID]{ID: volume, At: at, Content: []byte("content")},
		`{"volume":"`+volume+`","at":{"Incarnation":2,"Index":7},"content":"Y29udGVudA=="}`)
	requireManifestText(t, dir, Manifest[fsm.SnapshotID]{ID: snapshot, At: at, Content: []byte("content"), Removed: true},
		`{"snapshot":"`+snapshot+`","at":{"Incarnation":2,"Index":7},"content":"Y29udGVudA==","removed":true}`)
	require.NoError(t, os.Rename(manifestPath(dir, fsm.VolumeID(volume)), manifestPath(dir, fsm.SnapshotID(snapshot))))
	misplaced, err := Manifests[fsm.SnapshotID](dir)
	require.NoError(t, err)
	require.Empty(t, misplaced, "it is of a volume")
}

// The manifests of what was removed longest ago are dropped, no other.
func TestManifestsAreBounded(t *testing.T) {
	dir := manifestsFolder(t)
	id := func(i int) fsm.SnapshotID { return fsm.SnapshotID(fmt.Sprintf("hs-00000000-0000-4000-8000-%012x", i)) }
	for i := range removedKept + 3 {
		m := Manifest[fsm.SnapshotID]{ID: id(i), At: fsm.Epoch{Incarnation: 1, Index: uint64(removedKept + 3 - i)}, Removed: i != removedKept+2}
		require.NoError(t, m.Save(dir))
	}
	for range 2 {
		all, err := Manifests[fsm.SnapshotID](dir)
		require.NoError(t, err)
		require.Len(t, all, removedKept+1)
		require.Equal(t, id(removedKept-1), all[removedKept-1].ID)
		require.Equal(t, id(removedKept+2), all[removedKept].ID, "which is there still, although it is older")
		require.NoFileExists(t, manifestPath(dir, id(removedKept)))
		require.NoFileExists(t, manifestPath(dir, id(removedKept+1)))
	}
}
