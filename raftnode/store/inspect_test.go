package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInspectReadsADirectoryBesideItsMember(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			dir := filepath.Join(fastDir(t), "data")
			for range 2 {
				found, err := Inspect(dir)
				require.NoError(t, err)
				require.Empty(t, found)
				require.NoDirExists(t, dir)
			}
			s := open(t, dir, kind)
			for range 2 {
				found, err := Inspect(dir)
				require.NoError(t, err)
				require.Equal(t, "member "+s.MemberID, found)
			}
		})
	}
}

func TestInspectRefusesADirectoryThatIsNotWhole(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(d dataDir) error
		want   string
	}{
		"a file that is missing":      {func(d dataDir) error { return os.Remove(d.votePath()) }, "a file of this member is missing"},
		"an identity that is missing": {func(d dataDir) error { return os.Remove(d.identityPath()) }, "it is missing beside"},
		"an identity that is damaged": {func(d dataDir) error { return os.WriteFile(d.identityPath(), []byte("{}\n"), 0o600) }, "cannot be read"},
		"a file that others can read": {func(d dataDir) error { return os.Chmod(d.votePath(), 0o644) }, "others than its owner can read it"},
		"a member in quarantine":      {func(d dataDir) error { return os.WriteFile(d.quarantinedPath(), []byte("diverged"), 0o600) }, "diverged"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, filepath.Join(fastDir(t), "data"), WAL)
			require.NoError(t, tc.damage(s.dir))
			for range 2 {
				_, err := Inspect(s.dir.root)
				require.ErrorContains(t, err, tc.want)
			}
		})
	}
}
