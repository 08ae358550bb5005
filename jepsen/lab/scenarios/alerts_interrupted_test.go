package scenarios

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"syscall"
	"testing"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestAlertsOfInterruptedWork: a host loses its power in the middle of a rotation of a key, and the other host of a fenced one cannot
// disconnect it, as its disk hangs. A real Prometheus sees each alert become pending, fire and end.
func TestAlertsOfInterruptedWork(t *testing.T) {
	w := watchAlerts(t)
	w.loseARotation()
	w.hangAFence()
	w.noSplitBrain(t)
}

// loseARotation has the host that replaces a key lose its power before the former key is removed. That the volume is staged again ends
// nothing, as nobody knows the new key but who asks: the repetition does.
func (w *watched) loseARotation() {
	w.mustExec(w.t, "n1", cryptModules)
	v := w.encryptedPairOf(w.t, "interrupted", "key-0", false)
	w.publishAndStage(w.t, v, "n1")
	w.awaitInSync(w.t, v)
	w.Quiet("HoldfastKeyRotation")
	v.secrets = map[string]string{passphrase: "key-1", previousPassphrase: "key-0"}
	w.mustExec(w.t, "n1", "echo rotate-drop.before >/var/lib/holdfast/node/fault")
	rotating, giveUp := context.WithCancel(w.t.Context())
	defer giveUp()
	rotated := make(chan error, 1)
	rotate := func(ctx context.Context) error { return w.rotate(ctx, v, "n1") }
	go func() { rotated <- retryUntil(rotating, "rotate", rotate) }()
	w.awaitNodeGone(w.t, "n1")
	require.NoError(w.t, w.guest("n1").Crash())
	w.Fires("HoldfastKeyRotation")
	giveUp()
	require.Error(w.t, <-rotated)
	require.NoError(w.t, w.bootGuest(w.t.Context(), w.guest("n1")))
	w.mustExec(w.t, "n1", cryptModules+" && rm -f /var/lib/holdfast/node/fault") // the loss of power may have brought it back
	w.awaitInSync(w.t, v)
	require.NoError(w.t, w.co.stage(w.t.Context(), v, "n1"))
	w.Fires("HoldfastKeyRotation")
	require.NoError(w.t, retryUntil(w.t.Context(), "rotate", rotate))
	w.Ends("HoldfastKeyRotation")
	w.unstageAndUnpublish(w.t, v, "n1")
}

// hangAFence fences a writer's host that says nothing, while the disk of the other one hangs: a write that is under way keeps that from
// disconnecting. When it goes on, it disconnects, and has the volume.
func (w *watched) hangAFence() {
	v := w.replicated(w.t, "fenced", true)
	w.publishAndStage(w.t, v, "n1")
	w.awaitInSync(w.t, v)
	_, cidrs := w.clientsOf(w.t, "n1")
	w.Quiet("HoldfastFenceUnfinished")
	x := w.write(w.t, v, "n1", 1)
	x.awaitBlocks(w.t, 30)
	require.NoError(w.t, w.cluster.Node(1).Signal(w.t.Context(), syscall.SIGSTOP))
	hangDiskOf(w.t, w.env, v, "n2")
	x.awaitFrozen(w.t)
	w.awaitBusyDisk(v, "n2")
	w.awaitStandingFence(cidrs)
	w.Fires("HoldfastFenceUnfinished")
	resumeDiskOf(w.t, w.env, v, "n2")
	w.Ends("HoldfastFenceUnfinished")
	acked := x.readAcks().Number
	w.publishAndStage(w.t, v, "n2")
	w.requireAcknowledged(w.t, v, "n2", acked)
	require.NoError(w.t, w.cluster.Node(1).Signal(w.t.Context(), syscall.SIGCONT))
	w.awaitWriterError(w.t, x, acked)
	w.endFence(v, cidrs)
}

// fencing is the third guest's controller, as the orchestrator's controllers of CSI-Addons call it.
func (w *watched) fencing() fence.FenceControllerClient {
	conn, err := w.cluster.ControllerCSI(3)
	require.NoError(w.t, err)
	return fence.NewFenceControllerClient(conn)
}

// busyDisk is of a replica whose disk has requests, which lo counts.
const busyDisk = `(?m)^ *%s: cs:.*\n.* lo:[1-9]`

// awaitBusyDisk waits until the disk of a secondary, which hangs, has a write of its peer.
func (w *watched) awaitBusyDisk(v *volume, node string) {
	w.t.Helper()
	line := regexp.MustCompile(fmt.Sprintf(busyDisk, w.minor(w.t, v, node)))
	eventually(w.t, timeout, node+" has a write under way", func(ctx context.Context) error {
		all, err := w.guest(node).Get(ctx, "/proc/drbd")
		if err == nil && !line.Match(all) {
			err = fmt.Errorf("it says %s", all)
		}
		return err
	})
}

// awaitStandingFence fences, until the answer is that the fence stands and does not hold.
func (w *watched) awaitStandingFence(cidrs []*fence.CIDR) {
	w.t.Helper()
	eventually(w.t, timeout, "the fence stands", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		_, err := w.fencing().FenceClusterNetwork(ctx, &fence.FenceClusterNetworkRequest{Cidrs: cidrs})
		if status.Code(err) != codes.Aborted {
			return errors.Join(errors.New("another answer"), err)
		}
		return nil
	})
}

// endFence has the host serve again, and the volume as it was before.
func (w *watched) endFence(v *volume, cidrs []*fence.CIDR) {
	w.t.Helper()
	require.NoError(w.t, retryUntil(w.t.Context(), "unfence", func(ctx context.Context) error {
		_, err := w.fencing().UnfenceClusterNetwork(ctx, &fence.UnfenceClusterNetworkRequest{Cidrs: cidrs})
		return err
	}))
	w.awaitState(w.t, "n1", "reachable")
	w.awaitSynchronised(w.t, v, "n2", "the fenced replica is synchronised")
	require.NoError(w.t, w.co.unstage(w.t.Context(), v, "n1"))
	w.unstageAndUnpublish(w.t, v, "n2")
	w.awaitKept(w.t, "n1", v)
}
