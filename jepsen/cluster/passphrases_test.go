package cluster

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// passphrases stages an encrypted volume with the canary as its passphrase: a real cryptsetup makes its header. Without a
// device mapper it is not opened, which is said without the passphrase. Meanwhile no process shows it (S63).
func passphrases(t *testing.T, c *harness.Cluster, co *harness.CO) {
	watched, stop := context.WithCancel(t.Context())
	seen := make(chan string, 1)
	go func() { seen <- canaryInProcesses(watched) }()
	v, err := co.Create(t.Context(), harness.Spec{Name: "encrypted", Size: 32 * harness.Mi, Parameters: map[string]string{"encrypted": "true"}})
	require.NoError(t, err)
	require.NoError(t, co.Publish(t.Context(), v, "n1"))
	node, err := c.Node("n1")
	require.NoError(t, err)
	stage := co.StageRequest(v)
	require.NoError(t, os.MkdirAll(stage.StagingTargetPath, 0o750))
	for _, keys := range []map[string]string{nil, {"encryptionPassphrase": canary}, {"encryptionPassphrase": "another", "previousEncryptionPassphrase": canary}} {
		stage.Secrets = keys
		err := requireNoSecret(t, "stage an encrypted volume", func() error {
			_, err := node.NodeStageVolume(timeoutContext(t, harness.Patience), stage)
			return err
		})
		t.Logf("staged with %d keys: %v", len(keys), err)
		if keys == nil {
			require.Equal(t, codes.InvalidArgument, status.Code(err), "it needs its passphrase: %v", err)
		}
	}
	stop()
	require.Empty(t, <-seen)
	require.NotEmpty(t, headerBackups(t, c.Base), "cryptsetup was given the passphrase, and made a header")
	require.NoError(t, co.Unstage(t.Context(), v))
	require.NoError(t, co.Unpublish(t.Context(), v))
	require.NoError(t, co.Delete(t.Context(), v))
}

// headerBackups are the hosts' backups of LUKS headers.
func headerBackups(t *testing.T, folder string) (found []string) {
	require.NoError(t, filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".luks" {
			found = append(found, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the cluster goes on meanwhile
		}
		return err
	}))
	return found
}

// canaryInProcesses reads the arguments and the environments of all processes again and again; it returns the first
// file that has the canary, empty when there was none.
func canaryInProcesses(ctx context.Context) string {
	for ctx.Err() == nil {
		for _, name := range []string{"cmdline", "environ"} {
			files, _ := filepath.Glob("/proc/[0-9]*/" + name)
			for _, file := range files {
				raw, err := os.ReadFile(file)
				if err == nil && bytes.Contains(raw, []byte(canary)) {
					return file
				}
			}
		}
	}
	return ""
}
