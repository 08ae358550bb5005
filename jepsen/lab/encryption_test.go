package lab_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

const (
	passphrase = "canary-passphrase"
	plaintext  = "canary-plaintext"
)

// TestEncryptedVolumes: a node with a real cryptsetup and dm-crypt above a thin pool. The pool never has what was
// written, a power loss ends the mapping, and neither another passphrase nor a lost header opens or formats anything.
func TestEncryptedVolumes(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Config{Guests: 1})
	l.MustBoot(t)
	const modules = "modprobe -a dm_crypt xts algif_skcipher algif_hash"
	c, err := l.NewCluster(t.Context(), lab.ClusterConfig{Pool: "lvm:vg/pool", Setup: modules + " && pvcreate -qq -ff -y /dev/ubdc && vgcreate -qq vg /dev/ubdc"})
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	conn, err := c.ControllerCSI(1)
	require.NoError(t, err)
	w := &cryptNode{thinPoolNode: &thinPoolNode{T: t, c: c, g: l.Guest(1), controller: csi.NewControllerClient(conn)}}

	volume := w.createEncrypted("secret", 128<<20, "encryptionDiscards", "true")
	w.stageOK(volume)
	w.write(volume)
	require.Equal(t, codes.InvalidArgument, w.refused(volume, ""), "S63: it needs its passphrase")
	require.Zero(t, w.count(plaintext), "the pool has ciphertext")
	require.Contains(t, w.g.MustExec(t, "ls /dev/mapper"), "hfc-")
	w.reclaims(volume)
	w.keepsDiscardsBack(w.createEncrypted("hidden", 128<<20))

	boot := func() {
		require.NoError(t, c.BootGuest(t.Context(), 1))
		w.g.MustExec(t, modules)
		require.NoError(t, c.AwaitReady(t.Context()))
	}
	require.NoError(t, w.g.Crash())
	boot()
	require.NotContains(t, w.g.MustExec(t, "ls /dev/mapper"), "hfc-", "a boot opens nothing (S2)")
	require.Equal(t, codes.Unauthenticated, w.refused(volume, "another"))
	w.stageOK(volume)
	require.Equal(t, plaintext+"\n", w.g.MustExec(t, "cat "+path(volume)+"/file"))
	w.rotateThroughPowerLosses(volume, boot)
	w.expandEncrypted(volume, 224<<20)

	w.unstage(volume)
	require.NotContains(t, w.g.MustExec(t, "ls /dev/mapper"), "hfc-")
	require.Empty(t, w.g.MustExec(t, "grep -rl "+passphrase+" /var/lib/holdfast /var/log 2>/dev/null || true"), "S63")
	w.onImage(volume, "dd if=/dev/zero of=$d bs=1M count=16 conv=fsync,notrunc 2>/dev/null")
	require.Equal(t, codes.FailedPrecondition, w.refused(volume, passphrase), "S62: a lost header is not made again")
	w.restoreHeader(volume)
	w.stageOK(volume)
	require.Equal(t, plaintext+"\n", w.g.MustExec(t, "cat "+path(volume)+"/file"), "S62: its backup brings it back")
	w.unstage(volume)
	w.remove(volume)
	lab.Await(t, time.Minute, "the pool to be empty", func() (bool, string) {
		left := w.g.MustExec(t, "lvs --noheadings -o lv_name vg | tr -d ' '")
		return left == "pool\n", left
	})
	require.Empty(t, w.g.MustExec(t, "ls /var/lib/holdfast/node/headers 2>/dev/null || find /var/lib/holdfast -name '*.luks'"), "S65")
}

// cryptNode is a node with encrypted volumes.
type cryptNode struct{ *thinPoolNode }

// createEncrypted adds parameters, each followed by its value.
func (w *cryptNode) createEncrypted(name string, size int64, more ...string) *csi.Volume {
	parameters := map[string]string{"encrypted": "true"}
	for pair := range slices.Chunk(more, 2) {
		parameters[pair[0]] = pair[1]
	}
	made := retry(w, "create "+name, func(ctx context.Context) (*csi.CreateVolumeResponse, error) {
		return w.controller.CreateVolume(ctx, &csi.CreateVolumeRequest{Name: name, Parameters: parameters,
			CapacityRange: &csi.CapacityRange{RequiredBytes: size}, VolumeCapabilities: []*csi.VolumeCapability{capability}})
	})
	return made.GetVolume()
}

// tryStage stages the volume with a passphrase.
func (w *cryptNode) tryStage(ctx context.Context, v *csi.Volume, key string) error {
	return w.tryStageWith(ctx, v, key, "")
}

func (w *cryptNode) tryStageWith(ctx context.Context, v *csi.Volume, key, previous string) error {
	published := retry(w, "publish", func(ctx context.Context) (*csi.ControllerPublishVolumeResponse, error) {
		return w.controller.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
			VolumeId: v.GetVolumeId(), NodeId: "n1", VolumeCapability: capability, VolumeContext: v.GetVolumeContext()})
	})
	w.g.MustExec(w, "mkdir -p "+path(v))
	_, err := w.node().NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: v.GetVolumeId(), StagingTargetPath: path(v),
		VolumeCapability: capability, PublishContext: published.GetPublishContext(), VolumeContext: v.GetVolumeContext(),
		Secrets: map[string]string{"encryptionPassphrase": key, "previousEncryptionPassphrase": previous}})
	return err
}

func (w *cryptNode) stageOK(v *csi.Volume) {
	w.Helper()
	retry(w, "stage", func(ctx context.Context) (*csi.Volume, error) { return v, w.tryStage(ctx, v, passphrase) })
}

// refused is the code of a refusal that stays.
func (w *cryptNode) refused(v *csi.Volume, key string) (code codes.Code) {
	w.Helper()
	lab.Await(w, 2*time.Minute, "a refusal", func() (bool, string) {
		ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
		defer cancel()
		err := w.tryStage(ctx, v, key)
		code = status.Code(err)
		return code != codes.Aborted && code != codes.Unavailable, code.String()
	})
	return code
}

func (w *cryptNode) write(v *csi.Volume) {
	w.g.MustExec(w, "echo "+plaintext+" >"+path(v)+"/file && sync -f "+path(v))
}

// count is how often the pool's blocks have the text.
func (w *cryptNode) count(text string) int {
	out := w.g.MustExec(w, "dd if=/dev/ubdc bs=1M 2>/dev/null | tr '\\000' '\\n' | grep -c -a "+text+" || true")
	return len(strings.Trim(strings.TrimSpace(out), "0"))
}

// onImage runs a script with the path of the image as $d.
func (w *cryptNode) onImage(v *csi.Volume, script string) {
	w.g.MustExec(w, "lvchange -qq -K -ay vg/"+v.GetVolumeId()+" && d=/dev/vg/"+v.GetVolumeId()+" && "+script+" && lvchange -qq -an vg/"+v.GetVolumeId())
}

func (w *cryptNode) unstage(v *csi.Volume) {
	retry(w, "unstage", func(ctx context.Context) (*csi.NodeUnstageVolumeResponse, error) {
		return w.node().NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: v.GetVolumeId(), StagingTargetPath: path(v)})
	})
}

func (w *cryptNode) expandEncrypted(v *csi.Volume, size int64) {
	w.Helper()
	retry(w, "grow", func(ctx context.Context) (*csi.ControllerExpandVolumeResponse, error) {
		return w.controller.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{
			VolumeId: v.GetVolumeId(), CapacityRange: &csi.CapacityRange{RequiredBytes: size}, VolumeCapability: capability})
	})
	grow := func(ctx context.Context, secrets map[string]string) (*csi.NodeExpandVolumeResponse, error) {
		return w.node().NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{VolumeId: v.GetVolumeId(), VolumePath: path(v), StagingTargetPath: path(v),
			CapacityRange: &csi.CapacityRange{RequiredBytes: size}, VolumeCapability: capability, Secrets: secrets})
	}
	_, err := grow(w.Context(), nil)
	require.Equal(w, codes.FailedPrecondition, status.Code(err), "without its passphrase: %v", err)
	retry(w, "grow on n1", func(ctx context.Context) (*csi.NodeExpandVolumeResponse, error) {
		return grow(ctx, map[string]string{"encryptionPassphrase": passphrase})
	})
	kib := w.g.MustExec(w, "df -k --output=size "+path(v)+" | tail -1 | tr -d ' '")
	require.Greater(w, len(kib), len("99999\n"), "more than 100 MB: %s", kib)
}
