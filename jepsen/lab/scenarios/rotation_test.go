package scenarios

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	rotation "github.com/csi-addons/spec/lib/go/encryptionkeyrotation"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/plan"
)

// The node's process is killed in a rotation of the key, at one of its steps, and its host loses its power. The other host takes
// over: the key before and the new one stage the volume there, all that was acknowledged is in it, and it ends the
// rotation (S64), at every step. The short form has losses of power on one host, in TestEncryptedVolumes.
func TestS64_ARotationIsEndedWhereTheVolumeGoes(t *testing.T) {
	if !*long {
		t.Skip("the long form only: two hosts lose their power at every step of a rotation")
	}
	w := newScenario(t)
	nodes := []string{"n1", "n2"}
	for _, node := range nodes {
		w.mustExec(t, node, cryptModules)
	}
	v := w.encryptedPairOf(t, "rotated", "key-0", false)
	w.publishAndStage(t, v, nodes[0])
	number := uint64(1)
	for i, point := range rotationPoints() {
		number = w.dieInRotation(t, v, nodes[0], nodes[1], point, fmt.Sprintf("key-%d", i+1), number)
		slices.Reverse(nodes)
	}
	w.unstageAndUnpublish(t, v, nodes[0])
	w.noSplitBrain(t)
}

func rotationPoints() (points []string) {
	for _, kind := range plan.RotationSteps {
		points = append(points, string(kind)+".before", string(kind)+".after")
	}
	return points
}

// The names of the secrets.
const passphrase, previousPassphrase = "encryptionPassphrase", "previousEncryptionPassphrase"

// dieInRotation kills the process that rotates at the point and then its host, and has the other one end it.
func (w *env) dieInRotation(t *testing.T, v *volume, from, to, point, key string, number uint64) uint64 {
	t.Helper()
	w.awaitInSync(t, v)
	x := w.write(t, v, from, number)
	x.awaitBlocks(t, 30)
	v.secrets = map[string]string{passphrase: key, previousPassphrase: v.secrets[passphrase]}
	w.mustExec(t, from, "echo "+point+" >/var/lib/holdfast/node/fault")
	require.Error(t, w.rotate(t.Context(), v, from), "it dies at %s", point)
	w.awaitNodeGone(t, from)
	require.NoError(t, w.guest(from).Crash())
	acked := x.readAcks().Number
	w.unpublishUnreachable(t, v, from)
	w.publishAndStage(t, v, to)
	w.requireAcknowledged(t, v, to, acked)
	require.NoError(t, retryUntil(t.Context(), "rotate on "+to, func(ctx context.Context) error { return w.rotate(ctx, v, to) }))
	v.secrets = map[string]string{passphrase: key}
	require.NoError(t, w.bootGuest(t.Context(), w.guest(from)))
	// A loss of power may have brought the file back.
	w.mustExec(t, from, cryptModules+" && rm -f /var/lib/holdfast/node/fault")
	w.awaitSynchronised(t, v, to, "the host that came back is synchronised")
	w.awaitState(t, from, "reachable")
	require.NoError(t, w.co.unstage(t.Context(), v, to))
	require.NoError(t, w.co.stage(t.Context(), v, to), "the new key is enough")
	return acked + 1
}

// awaitNodeGone waits until the process of a node has ended.
func (w *env) awaitNodeGone(t *testing.T, node string) {
	t.Helper()
	eventually(t, timeout, "the process is gone", func(ctx context.Context) error {
		if w.cluster.Node(w.guest(node).Index).Running(ctx) {
			return fmt.Errorf("it runs")
		}
		return nil
	})
}

// rotate asks a node to replace the key, once.
func (w *env) rotate(ctx context.Context, v *volume, node string) error {
	conn, err := w.cluster.NodeCSI(w.guest(node).Index)
	if err != nil {
		return err
	}
	ctx, end := context.WithTimeout(ctx, time.Minute)
	defer end()
	// The client of Kubernetes sends the access mode alone.
	mode := &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER}
	_, err = rotation.NewEncryptionKeyRotationControllerClient(conn).EncryptionKeyRotate(ctx, &rotation.EncryptionKeyRotateRequest{
		VolumeId: v.id, VolumeCapability: &csi.VolumeCapability{AccessMode: mode}, Secrets: v.secrets})
	return err
}
