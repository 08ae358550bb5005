package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// CSI-ID-Probe-02, -07.
func TestAPoolIsUsableWhileItsFolderIsThere(t *testing.T) {
	pool := t.TempDir()
	require.ErrorContains(t, checkPoolFolder(pool), "the pool is missing")
	path := filepath.Join(pool, "volumes")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.ErrorContains(t, checkPoolFolder(pool), "is no folder")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o700))
	require.NoError(t, checkPoolFolder(pool))
}
