package cluster

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// canary is in every secret and in a mount flag. It may be nowhere on disk and in
// no answer (CSI-GEN-Secrets-06, -07).
const canary = "canary-7f3a91d2"

func secret() map[string]string { return map[string]string{"token": canary} }

// TestSecretsAreNowhere looks for a secret in the log, its snapshots, the journal, the
// hosts' records and all logs: they are below one directory.
func TestSecretsAreNowhere(t *testing.T) {
	c := startCluster(t, harness.Options{Supervise: true, Flags: append([]string{"--log-level=debug"}, eagerSnapshots...)})
	co := c.NewCO()
	v, err := co.Create(t.Context(), harness.Spec{Name: "secretive"})
	require.NoError(t, err)
	require.NoError(t, co.Publish(t.Context(), v, "n1"))
	controllerSecrets(t, c, v)
	nodeSecrets(t, c, co, v)
	passphrases(t, c, co)
	createMany(t, co, "more", 60, 8) // until there is a Raft snapshot
	awaitSnapshot(t, c, "c1")
	requireNoSecretIn(t, c.Base)
	require.NoError(t, co.UnbindUnstageUnpublish(t.Context(), v))
	removeAll(t, c)
}

// requireNoSecret is definite, of a call of which no answer may repeat the canary.
func requireNoSecret(t *testing.T, what string, call func() error) error {
	t.Helper()
	return repeatUntilDefinite(t, what, func() error {
		err := call()
		require.NotContains(t, status.Convert(err).Message(), canary)
		return err
	})
}

func controllerSecrets(t *testing.T, c *harness.Cluster, v *harness.Volume) {
	ctx := timeoutContext(t, harness.Patience)
	for _, id := range others(t, c, "") {
		ctl, err := c.Controller(id)
		require.NoError(t, err)
		create := harness.Spec{Name: v.Name}.CreateRequest()
		create.Secrets = secret()
		require.NoError(t, requireNoSecret(t, "create", func() error {
			_, err := ctl.CreateVolume(ctx, create)
			return err
		}))
		create.CapacityRange.RequiredBytes *= 2
		require.Error(t, requireNoSecret(t, "create otherwise", func() error {
			_, err := ctl.CreateVolume(ctx, create)
			return err
		}))
		require.NoError(t, requireNoSecret(t, "validate", func() error {
			_, err := ctl.ValidateVolumeCapabilities(ctx, &csi.ValidateVolumeCapabilitiesRequest{VolumeId: v.ID,
				VolumeCapabilities: []*csi.VolumeCapability{v.Capability()}, Secrets: secret()})
			return err
		}))
		require.NoError(t, requireNoSecret(t, "publish", func() error {
			_, err := ctl.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{VolumeId: v.ID, NodeId: "n1",
				VolumeCapability: v.Capability(), VolumeContext: v.Context, Secrets: secret()})
			return err
		}))
		require.Error(t, requireNoSecret(t, "delete", func() error {
			_, err := ctl.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v.ID, Secrets: secret()})
			return err
		}), "it is published")
	}
}

func nodeSecrets(t *testing.T, c *harness.Cluster, co *harness.CO, v *harness.Volume) {
	node, err := c.Node(v.Node)
	require.NoError(t, err)
	stage := co.StageRequest(v)
	stage.Secrets = secret()
	require.NoError(t, os.MkdirAll(stage.StagingTargetPath, 0o750))
	stage.VolumeCapability.GetMount().MountFlags = []string{canary}
	doStage := func() error {
		_, err := node.NodeStageVolume(timeoutContext(t, harness.Patience), stage)
		return err
	}
	require.Error(t, requireNoSecret(t, "stage with a flag", doStage), "a mount flag that no filesystem knows")
	stage.VolumeCapability.GetMount().MountFlags = nil
	require.NoError(t, requireNoSecret(t, "stage", doStage))
	require.NoError(t, os.MkdirAll(filepath.Dir(co.TargetRequest(v).TargetPath), 0o750))
	bind := co.TargetRequest(v)
	bind.Secrets = secret()
	require.NoError(t, requireNoSecret(t, "bind", func() error {
		_, err := node.NodePublishVolume(timeoutContext(t, harness.Patience), bind)
		return err
	}))
}

// requireNoSecretIn fails the test when the canary is in any file below a directory. The cluster goes
// on meanwhile, and gives files other names: it is looked through until none went away
// before it was read.
func requireNoSecretIn(t *testing.T, folder string) {
	files := 0
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "all files to stay where they are", func() (bool, error) {
		files = 0
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || filepath.Ext(path) == ".img" {
				return err
			}
			raw, err := os.ReadFile(path)
			require.False(t, bytes.Contains(raw, []byte(canary)), "%s holds a secret", path)
			files++
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			err = harness.Permanent(err)
		}
		return err == nil, err
	}))
	require.Greater(t, files, 20, "hardly a file was looked at")
}
