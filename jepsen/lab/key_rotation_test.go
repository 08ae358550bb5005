package lab_test

import (
	"context"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	rotation "github.com/csi-addons/spec/lib/go/encryptionkeyrotation"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
)

// rotateThroughPowerLosses replaces the volume's key, each time with a loss of power at another instant of the
// rotation. Afterwards the new and the old key together always stage it, with its content, and a repetition
// leaves only the new one (S64). The last rotation brings the first key back.
func (w *cryptNode) rotateThroughPowerLosses(v *csi.Volume, boot func()) {
	w.Helper()
	key, next := passphrase, passphrase+"-next"
	for _, after := range []time.Duration{300 * time.Millisecond, 1500 * time.Millisecond} {
		ended := make(chan error, 1)
		go func() { ended <- w.tryRotate(v, next, key) }()
		time.Sleep(after) // the instant at which the power fails
		require.NoError(w, w.g.Crash())
		w.Logf("the rotation when the power failed: %v", <-ended)
		boot()
		w.stageWith(v, next, key)
		require.Equal(w, plaintext+"\n", w.g.MustExec(w, "cat "+path(v)+"/file"))
		retry(w, "rotate", func(context.Context) (*csi.Volume, error) { return v, w.tryRotate(v, next, key) })
		w.unstage(v)
		require.Equal(w, codes.Unauthenticated, w.refused(v, key), "the key of before")
		w.stageWith(v, next, "")
		key, next = next, key
	}
}

func (w *cryptNode) tryRotate(v *csi.Volume, key, previous string) error {
	ctx, end := context.WithTimeout(w.Context(), 2*time.Minute)
	defer end()
	conn, err := w.c.NodeCSI(1)
	require.NoError(w, err)
	_, err = rotation.NewEncryptionKeyRotationControllerClient(conn).EncryptionKeyRotate(ctx, &rotation.EncryptionKeyRotateRequest{
		VolumeId: v.GetVolumeId(), Parameters: v.GetVolumeContext(), VolumeCapability: modeAlone(), Secrets: map[string]string{"encryptionPassphrase": key, "previousEncryptionPassphrase": previous},
	})
	return err
}

func (w *cryptNode) stageWith(v *csi.Volume, key, previous string) {
	w.Helper()
	retry(w, "stage", func(ctx context.Context) (*csi.Volume, error) { return v, w.tryStageWith(ctx, v, key, previous) })
}

// modeAlone is the capability that the client of Kubernetes sends with a rotation.
func modeAlone() *csi.VolumeCapability {
	mode := csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	return &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode}}
}
