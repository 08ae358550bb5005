package records

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInspectReadsTheIdentityAndChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for range 2 {
		found, err := Inspect(dir)
		require.NoError(t, err)
		require.Empty(t, found)
		require.NoDirExists(t, dir)
	}
	host, err := OpenHost(dir)
	require.NoError(t, err)
	for range 2 {
		found, err := Inspect(dir)
		require.NoError(t, err)
		require.Equal(t, "host "+string(host.ID), found)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, hostFile), []byte("{"), 0o600))
	for range 2 {
		_, err = Inspect(dir)
		require.ErrorContains(t, err, "damaged")
	}
}
