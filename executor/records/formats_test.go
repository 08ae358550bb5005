package records

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/foldertest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// S72: a data folder that a newer build wrote is refused before anything is written into it, and that build goes on with it.
func TestS72_AFolderOfANewerBuildIsLeftByteForByte(t *testing.T) {
	const id = fsm.VolumeID("hf-00000000-0000-4000-8000-000000000001")
	inSlot := func(at int64) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			f, err := os.OpenFile(recordPath(dir, id), os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteAt([]byte("HFSLOT2\n"), at)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
	}
	for name, plant := range map[string]func(t *testing.T, dir string){
		"the folder's format": func(t *testing.T, dir string) {
			text, err := os.ReadFile(filepath.Join(dir, hostFile))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, hostFile), append([]byte(`{"format":2,"later":true,`), text[1:]...), 0o600))
			require.NoError(t, os.RemoveAll(filepath.Join(dir, manifestsDir)), "which this build would make again")
		},
		"a record":                   inSlot(0),
		"the other slot of a record": inSlot(slotSize),
		"what was acted on": func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, actedFile), []byte("HFSLOT2\nsomething"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			h, err := OpenHost(dir)
			require.NoError(t, err)
			record, err := OpenRecordFile(dir, id)
			require.NoError(t, err)
			require.NoError(t, record.Save(true))
			require.NoError(t, record.Save(true))
			again, err := OpenHost(dir)
			require.NoError(t, err)
			require.Equal(t, h.ID, again.ID)
			plant(t, dir)
			before := foldertest.Files(t, dir)
			for range 2 {
				_, err := OpenHost(dir)
				require.ErrorIs(t, err, ErrNewer)
				require.ErrorContains(t, err, "start that build")
				require.Empty(t, foldertest.Changes(before, foldertest.Files(t, dir)))
			}
		})
	}
}

// A record of a newer format is not taken for one that was never written.
func TestS72_ARecordOfANewerBuildIsNotEmpty(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x"+recordSuffix)
	require.NoError(t, os.WriteFile(path, []byte("HFSLOT9\n0123456789abcdef0123456789"), 0o600))
	for range 2 {
		_, _, err := openSlotFile(path)
		require.ErrorIs(t, err, ErrNewer)
	}
	require.NoError(t, os.WriteFile(path, []byte("HFSL"), 0o600), "what a crash left of the first write")
	_, content, err := openSlotFile(path)
	require.NoError(t, err)
	require.Nil(t, content)
}
