package scenarios

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

const (
	// canary is the beginning of every passphrase and of what is written: whoever finds it where it may not be, finds it whole,
	// as it fits many times into a frame and into a block.
	canary = "canary-of-clear-text"
	// clearBytes is how much of it is written.
	clearBytes = 4 * mi
)

// S63: a raw volume of two replicas is encrypted above DRBD, so that neither the wire between the hosts nor either pool has what
// was written, nor any file the passphrase. The other host opens it with the same passphrase when the first lost its power (S64).
func TestS63_ReplicasAndTheirWireHaveCiphertext(t *testing.T) {
	w := newScenario(t)
	nodes := []string{"n1", "n2"}
	for _, node := range nodes {
		w.mustExec(t, node, cryptModules)
	}
	v := w.encryptedPairOf(t, "ciphertext", canary+"-key", true)
	wire, err := w.guest("n1").Capture(lab.Replication)
	require.NoError(t, err)
	w.publishAndStage(t, v, "n1")
	w.awaitInSync(t, v)
	sum := w.writeClearText(t, v, "n1")
	frames, err := wire.End()
	require.NoError(t, err)
	require.Greater(t, int64(len(frames)), clearBytes, "what was written was sent")
	require.False(t, bytes.Contains(frames, []byte(canary)), "the wire has what was written")
	w.requireNowhere(t, v, nodes)

	require.NoError(t, w.guest("n1").Crash())
	w.unpublishUnreachable(t, v, "n1")
	w.publishAndStage(t, v, "n2")
	require.Equal(t, sum, w.sumOfClearText(t, v, "n2"))
	require.NoError(t, w.bootGuest(t.Context(), w.guest("n1")))
	w.awaitSynchronised(t, v, "n2", "the host that came back is synchronised")
	w.awaitState(t, "n1", "reachable")
	w.requireNowhere(t, v, nodes)
	w.unstageAndUnpublish(t, v, "n2")
	w.noSplitBrain(t)
}

// encryptedPairOf is a volume of two replicas, encrypted above DRBD.
func (w *env) encryptedPairOf(t *testing.T, name, key string, block bool) *volume {
	t.Helper()
	w.count++
	v := &volume{name: fmt.Sprintf("%s-%d", name, w.count), size: 32 * mi, block: block, secrets: map[string]string{passphrase: key}}
	require.NoError(t, w.co.create(t.Context(), v, []string{"n1", "n2"}, map[string]string{"replicas": "2", "encrypted": "true"}))
	t.Cleanup(func() {
		if !t.Failed() {
			require.NoError(t, w.co.delete(context.WithoutCancel(t.Context()), v))
		}
	})
	return v
}

// writeClearText fills the volume's first blocks, and answers their checksum.
func (w *env) writeClearText(t *testing.T, v *volume, node string) string {
	t.Helper()
	w.mustExec(t, node, fmt.Sprintf("set -o pipefail; { yes %s || true; } | dd of=%s bs=1M count=%d iflag=fullblock oflag=direct conv=fsync 2>/dev/null", canary, v.target(), clearBytes/mi))
	return w.sumOfClearText(t, v, node)
}

func (w *env) sumOfClearText(t *testing.T, v *volume, node string) string {
	t.Helper()
	read := fmt.Sprintf("dd if=%s bs=1M count=%d iflag=direct 2>/dev/null", v.target(), clearBytes/mi)
	text := w.mustExec(t, node, fmt.Sprintf("%[1]s | grep -c %[2]s; %[1]s | sha256sum", read, canary))
	fields := strings.Fields(text)
	require.Len(t, fields, 3, text)
	require.NotEqual(t, "0", fields[0], "the volume has what was written")
	return fields[1]
}

// requireNowhere: the canary is on no replica's device below the encryption, in no file of Holdfast and in no log of a kernel.
func (w *env) requireNowhere(t *testing.T, v *volume, nodes []string) {
	t.Helper()
	for _, node := range nodes {
		found := w.mustExec(t, node, fmt.Sprintf("sync; echo 3 >/proc/sys/vm/drop_caches; grep -l -a %[1]s /dev/mapper/%[2]s; grep -rl -a %[1]s /var/lib/holdfast /var/log /etc; dmesg | grep %[1]s; true", canary, v.device()))
		require.Empty(t, found, node)
		require.NotContains(t, w.mustExec(t, node, "dmsetup table /dev/mapper/"+v.device()), "crypt", "that is the device below")
	}
}
