package records

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func reopenSlotFile(t *testing.T, path string) (*SlotFile, string) {
	t.Helper()
	s, content, err := openSlotFile(path)
	require.NoError(t, err)
	return s, string(content)
}

func TestARecordIsReplacedAsAWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.rec")
	s, content := reopenSlotFile(t, path)
	require.Empty(t, content)
	require.NoFileExists(t, path, "reading makes nothing")
	for i := range 5 {
		for range 2 {
			want := strings.Repeat(fmt.Sprint(i), 1000*(5-i))
			require.NoError(t, s.write([]byte(want), i%2 == 0))
			s, content = reopenSlotFile(t, path)
			require.Equal(t, want, content)
		}
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	for range 2 {
		require.NoError(t, s.Remove())
		_, content = reopenSlotFile(t, path)
		require.Empty(t, content)
	}
	require.NoError(t, s.write([]byte("again"), true))
	_, content = reopenSlotFile(t, path)
	require.Equal(t, "again", content)
}

func TestATornWriteLeavesTheContentBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.rec")
	s, _ := reopenSlotFile(t, path)
	require.NoError(t, s.write([]byte("first"), true))
	require.NoError(t, s.write([]byte("second"), true))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for at := range slotHeader + len("second") {
		torn := append([]byte(nil), whole...)
		torn[slotSize+at] ^= 0x40
		require.NoError(t, os.WriteFile(path, torn, 0o600))
		_, content := reopenSlotFile(t, path)
		require.Equal(t, "first", content, "byte %d", at)
	}
}

// A write that was not synced may be lost together with the next one, which is torn; the
// content that was synced before them must then be there.
func TestWhatWasSyncedIsNeverOverwrittenByTheNextWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.rec")
	s, _ := reopenSlotFile(t, path)
	for i := range 6 {
		synced := fmt.Sprintf("synced %d", i)
		require.NoError(t, s.write([]byte(synced), true))
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		for range i {
			require.NoError(t, s.write([]byte("lost"), false))
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(after), synced))
			require.NotEqual(t, before, after)
		}
	}
}

func TestADamagedRecordIsNoRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.rec")
	for _, content := range []string{"", "x", slotMagic, slotMagic + strings.Repeat("\xff", 100)} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		s, got := reopenSlotFile(t, path)
		require.Empty(t, got)
		require.NoError(t, s.write([]byte("new"), true))
		_, got = reopenSlotFile(t, path)
		require.Equal(t, "new", got)
	}
	s, _ := reopenSlotFile(t, path)
	require.ErrorContains(t, s.write(make([]byte, slotSize), true), "too many")
}

func FuzzOpenSlotFile(f *testing.F) {
	f.Add([]byte(slotMagic))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "a.rec")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		_, _, err := openSlotFile(path)
		require.NoError(t, err)
	})
}
