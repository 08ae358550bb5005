package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/executor/run"
)

func TestWhatAHostMustHaveIsToldInOneLine(t *testing.T) {
	for name, tc := range map[string]struct {
		euid    int
		missing string
		want    string
	}{
		"root":      {euid: 1000, want: "run it as root"},
		"mkfs.ext4": {missing: "mkfs.ext4", want: "e2fsprogs"},
		"mkfs.xfs":  {missing: "mkfs.xfs", want: "xfsprogs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { geteuid = os.Geteuid })
			geteuid = func() int { return tc.euid }
			for range 2 {
				err := checkHost(func(tool string) (string, error) {
					if tool == tc.missing {
						return "", &run.MissingError{Tool: tool, Package: map[string]string{"mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs"}[tool]}
					}
					return "/sbin/" + tool, nil
				})
				require.ErrorContains(t, err, tc.want)
				require.Equal(t, exit.No, exit.Code(err))
				require.NotContains(t, exit.Line(err), "\n")
			}
		})
	}
}

func TestS12_OnlyAFolderThatWasNeverAPoolBecomesOne(t *testing.T) {
	data, pool := t.TempDir(), filepath.Join(t.TempDir(), "pool")
	require.NoError(t, os.Chmod(data, 0o700))
	first := open(t, data, pool)
	id := first.pool.ID()
	require.NotEmpty(t, id)
	require.NoError(t, first.close())
	require.NoError(t, os.RemoveAll(pool))
	require.NoError(t, os.MkdirAll(pool, 0o700)) // as when its filesystem is not mounted
	for range 2 {
		again := open(t, data, pool)
		require.Equal(t, id, again.pool.ID())
		require.True(t, again.pool.Facts(t.Context()).Absent)
		require.NoError(t, again.close())
	}
	left, err := os.ReadDir(pool)
	require.NoError(t, err)
	require.Empty(t, left, "nothing was made in it")
}

func open(t *testing.T, data, pool string) *parts {
	t.Helper()
	p := &parts{}
	require.NoError(t, p.openIdentity(data))
	require.NoError(t, p.openPool(pool))
	return p
}

func TestTwoNodesDoNotShareADataFolder(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, os.Chmod(data, 0o700))
	first := &parts{}
	require.NoError(t, first.openIdentity(data))
	for range 2 {
		second := &parts{}
		require.ErrorContains(t, second.openIdentity(data), "stop it first")
		require.NoError(t, second.close())
	}
	require.NoError(t, first.close())
}
