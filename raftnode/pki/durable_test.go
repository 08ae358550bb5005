package pki

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A key that a token is bound to, or that a CA signs with, must outlive a loss of power once a step that relies on it follows.
func TestNamesOfFilesAreDurable(t *testing.T) {
	real := syncDir
	t.Cleanup(func() { syncDir = real })
	var synced []string
	syncDir = func(dir string) error {
		synced = append(synced, dir)
		return real(dir)
	}
	dir := filepath.Join(t.TempDir(), "tls")
	for range 2 { // the second time the key is there
		synced = nil
		_, err := MakeRequest(filepath.Join(dir, "tls.key"))
		require.NoError(t, err)
		require.Contains(t, synced, dir)
	}
	synced = nil
	require.NoError(t, moveFile(filepath.Join(dir, "tls.key"), filepath.Join(dir, "other.key")))
	require.Equal(t, []string{dir}, synced)
	syncDir = func(string) error { return errors.New("the disk is gone") }
	for range 2 {
		_, err := MakeRequest(filepath.Join(dir, "other.key"))
		require.ErrorContains(t, err, "the disk is gone")
	}
}
