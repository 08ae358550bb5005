package rootfs

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLockIsReadAsItWasWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	want := Lock{Epoch: time.Unix(1_700_000_000, 0).UTC(), Versions: map[string]string{"a": "1:2.0-1", "b": "3"}}
	for range 2 {
		require.NoError(t, os.WriteFile(file, []byte(want.String()), 0o600))
		got, err := ReadLock(file)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Empty(t, want.Changed(want))
	require.Equal(t, []string{"b", "c"}, want.Changed(Lock{Versions: map[string]string{"a": "1:2.0-1", "b": "4", "c": "1"}}))
}

func TestLockRefusesWhatIsNoLock(t *testing.T) {
	for name, content := range map[string]string{
		"nothing": "", "no time": "a=1\n", "no packages": epochPrefix + "5\n", "no version": epochPrefix + "5\na=\n",
		"no name and version": epochPrefix + "5\na\n", "twice": epochPrefix + "5\na=1\na=1\n", "a time that is none": epochPrefix + "x\na=1\n",
	} {
		file := filepath.Join(t.TempDir(), "lock")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		_, err := ReadLock(file)
		require.Error(t, err, name)
	}
}

// Every package that is named is locked or left out on purpose, and none that is left out is locked.
func TestTheListsAgree(t *testing.T) {
	lock, err := ReadLock("../packages.lock")
	require.NoError(t, err)
	named, err := Names("../packages")
	require.NoError(t, err)
	leftOut, err := Names("../left-out")
	require.NoError(t, err)
	locked := slices.Collect(maps.Keys(lock.Versions))
	for _, name := range named {
		require.True(t, slices.Contains(locked, name) != slices.Contains(leftOut, name), name)
	}
	for _, name := range leftOut {
		require.NotContains(t, locked, name)
	}
}

func TestSources(t *testing.T) {
	dated, err := Sources([]string{"http://a/debian", "http://a/security"})
	require.NoError(t, err)
	require.Equal(t, []string{
		"deb [check-valid-until=no signed-by=" + keyring + "] http://a/debian bookworm main",
		"deb [check-valid-until=no signed-by=" + keyring + "] http://a/debian bookworm-updates main",
		"deb [check-valid-until=no signed-by=" + keyring + "] http://a/security bookworm-security main",
	}, dated)
	_, err = Sources([]string{"a", "b", "c"})
	require.Error(t, err)
	own := sourceLines([]string{"http://m/debian/ Debian", "http://m/debian/ Debian", "http://m/sec/ Debian-Security", "http://m/b/ Debian Backports", ""})
	require.Len(t, own, 3)
	require.Contains(t, own, "deb [signed-by="+keyring+"] http://m/sec/ bookworm-security main")
}
