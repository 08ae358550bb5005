package scenarios

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// device is the volume's thin device as device-mapper names it.
func (v *volume) device() string { return "vg-" + strings.ReplaceAll(v.id, "-", "--") }

// failDisk makes every access to the volume's device on a host fail; repairDisk ends that.
func (w *env) failDisk(t *testing.T, v *volume, node string) {
	t.Helper()
	w.mustExec(t, node, fmt.Sprintf(`set -e; d=%s; dmsetup table $d >/lab/table-$d; read s l r </lab/table-$d
dmsetup suspend --noflush --nolockfs $d; echo "0 $l error" | dmsetup load $d; dmsetup resume $d`, v.device()))
}

func (w *env) repairDisk(t *testing.T, v *volume, node string) {
	t.Helper()
	w.mustExec(t, node, fmt.Sprintf(`set -e; d=%s; dmsetup suspend --noflush $d; dmsetup load $d </lab/table-$d; dmsetup resume $d`, v.device()))
}

// discardWrites zeroes the device below a failed disk, as if nothing that it accepted had reached the medium;
// DRBD's own metadata behind the data still call it up to date.
func (w *env) discardWrites(t *testing.T, v *volume, node string) {
	t.Helper()
	w.mustExec(t, node, fmt.Sprintf(`set -e; dmsetup create lost </lab/table-%s; dmsetup mknodes
dd if=/dev/zero of=/dev/mapper/lost bs=1M count=%d oflag=direct 2>/dev/null; dmsetup remove lost`, v.device(), v.size/mi))
}

// A disk fails under the primary, or under its peer: the volume continues with the other replica, and the
// condition reports it. When the disk is back, its content is not trusted: all of it is copied again,
// meanwhile nothing stale is read, and all acknowledged writes are on both hosts (S67).
func TestS67_AFailedDiskIsCopiedWholly(t *testing.T) {
	for name, tc := range map[string]struct {
		broken string
		block  bool
	}{
		"under the primary":   {broken: "n1", block: true},
		"under the secondary": {broken: "n2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newScenario(t)
			v := w.replicated(t, "eio", tc.block)
			w.publishAndStage(t, v, "n1")
			w.awaitInSync(t, v)
			x := w.write(t, v, "n1", 1)
			w.failDisk(t, v, tc.broken)
			w.awaitKernel(t, v, tc.broken, timeout, "its disk is gone", func(d drbdState) bool { return d.disk == "Diskless" })
			x.awaitBlocks(t, 50)
			w.awaitAbnormal(t, v)
			w.discardWrites(t, v, tc.broken)
			w.mustExec(t, tc.broken, "dmesg -C")
			w.repairDisk(t, v, tc.broken)
			w.awaitKernel(t, v, tc.broken, resyncTimeout, "it is synchronised", func(d drbdState) bool {
				w.requireAcknowledged(t, v, "n1", x.readAcks().Number)
				return isUpToDate(d)
			})
			w.requireFullSync(t, v, tc.broken)
			w.awaitInSync(t, v)
			last := x.stop(t)
			require.Empty(t, last.Error)
			w.requireAcknowledged(t, v, "n1", last.Number)
			w.unstageAndUnpublish(t, v, "n1")
			w.publishAndStage(t, v, "n2")
			w.requireAcknowledged(t, v, "n2", last.Number)
			w.unstageAndUnpublish(t, v, "n2")
			w.noSplitBrain(t)
		})
	}
}

// awaitAbnormal waits until CSI reports the volume as abnormal.
func (w *env) awaitAbnormal(t *testing.T, v *volume) {
	t.Helper()
	eventually(t, timeout, "the condition says so", func(ctx context.Context) error {
		abnormal, message, err := w.condition(ctx, v)
		if err == nil && !abnormal {
			err = fmt.Errorf("it says %q", message)
		}
		if err == nil {
			t.Logf("the condition: %s", message)
		}
		return err
	})
}

// The secondary's disk fails unreported; the primary continues and loses its power. The secondary is stale
// and is not promoted (S5).
func TestS5_AStaleSecondaryIsNotPromoted(t *testing.T) {
	w := newScenario(t)
	v := w.replicated(t, "stale", false)
	w.publishAndStage(t, v, "n1")
	w.awaitInSync(t, v)
	x := w.write(t, v, "n1", 1)
	require.NoError(t, w.cluster.KillNode(t.Context(), 1))
	require.NoError(t, w.cluster.KillNode(t.Context(), 2))
	w.failDisk(t, v, "n2")
	w.awaitKernel(t, v, "n2", timeout, "its disk is gone", func(d drbdState) bool { return d.disk == "Diskless" })
	x.awaitBlocks(t, 50)
	require.NoError(t, w.guest("n1").Crash())
	acked := x.readAcks().Number
	w.repairDisk(t, v, "n2")
	require.NoError(t, w.cluster.StartNode(t.Context(), 2))
	w.awaitState(t, "n2", "reachable")
	w.awaitState(t, "n1", "unreachable")
	w.requireRefused(t, v, "n1", "n2")
	require.NoError(t, w.bootGuest(t.Context(), w.guest("n1")))
	w.requireBothUpToDate(t, v, "n1", acked)
}

// The primary's disk fails unreported, then both hosts lose their power. The old primary alone waits for its
// peer; when both are back they continue automatically.
func TestS5_AStalePrimaryWaitsForItsPeer(t *testing.T) {
	w := newScenario(t)
	v := w.replicated(t, "stale", false)
	w.publishAndStage(t, v, "n1")
	w.awaitInSync(t, v)
	x := w.write(t, v, "n1", 1)
	require.NoError(t, w.cluster.KillNode(t.Context(), 1))
	require.NoError(t, w.cluster.KillNode(t.Context(), 2))
	w.failDisk(t, v, "n1")
	w.awaitKernel(t, v, "n1", timeout, "its disk is gone", func(d drbdState) bool { return d.disk == "Diskless" })
	x.awaitBlocks(t, 50)
	require.NoError(t, w.guest("n1").Crash())
	require.NoError(t, w.guest("n2").Crash())
	acked := x.readAcks().Number
	require.NoError(t, w.bootGuest(t.Context(), w.guest("n1")))
	w.awaitState(t, "n1", "reachable")
	attempt, end := context.WithTimeout(t.Context(), 10*time.Second)
	err := w.co.stage(attempt, v, "n1")
	end()
	require.Error(t, err, "n1 misses what was written when it had no disk")
	t.Logf("stage on n1: %v", err)
	require.NoError(t, w.bootGuest(t.Context(), w.guest("n2")))
	w.requireBothUpToDate(t, v, "n2", acked)
}

// requireBothUpToDate waits until both replicas are up to date and checks the content on both hosts.
func (w *env) requireBothUpToDate(t *testing.T, v *volume, node string, acked uint64) {
	t.Helper()
	w.awaitState(t, "n1", "reachable")
	w.awaitState(t, "n2", "reachable")
	w.awaitSynchronised(t, v, node, "both are synchronised")
	for _, other := range []string{"n1", "n2"} {
		w.unpublishUnreachable(t, v, other)
	}
	for _, n := range []string{"n1", "n2"} {
		w.publishAndStage(t, v, n)
		w.requireAcknowledged(t, v, n, acked)
		w.unstageAndUnpublish(t, v, n)
	}
	w.noSplitBrain(t)
}

// A primary that ran without its peer and lost its power is not primary again after the other replica was
// forced, whatever its kernel's metadata say (S2).
func TestS2_ARebootedPrimaryAsksFirst(t *testing.T) {
	w := newScenario(t)
	v := w.replicated(t, "forced", false)
	w.publishAndStage(t, v, "n1")
	w.awaitInSync(t, v)
	x := w.write(t, v, "n1", 1)
	require.NoError(t, w.lab.Partition(t.Context(), lab.Replication, []int{1}, []int{2}))
	w.awaitKernel(t, v, "n1", timeout, "it goes on alone", func(d drbdState) bool { return d.connection != "Connected" && !d.suspended })
	x.awaitBlocks(t, 20)
	require.NoError(t, w.guest("n1").Crash())
	w.awaitState(t, "n1", "unreachable")
	w.forcePrimary(t, v, "n1", "n2")
	require.NoError(t, w.co.stage(t.Context(), v, "n2"))
	y := w.write(t, v, "n2", 1_000_001)
	y.awaitBlocks(t, 20)
	require.NoError(t, w.bootGuest(t.Context(), w.guest("n1")))
	w.awaitState(t, "n1", "reachable")
	w.awaitKernel(t, v, "n1", timeout, "it has its replica again", func(d drbdState) bool {
		require.NotEqual(t, "Primary", d.role)
		return d.disk != ""
	})
	w.requireRefused(t, v, "n2", "n1")
	// Another publication revokes the request that n2 tears the volume down once it is unused (S31).
	require.NoError(t, w.co.publish(t.Context(), v, "n2"))
	require.NoError(t, w.lab.ReconnectAll(t.Context()))
	w.awaitSynchronised(t, v, "n2", "what n1 has is discarded")
	y.awaitBeyond(t, 1_000_001+1024) // a whole turn of the ring, which had the other writer's numbers
	last := y.stop(t)
	w.requireAcknowledged(t, v, "n2", last.Number)
	const promoted = "role( Secondary -> Primary )"
	require.Contains(t, w.mustExec(t, "n2", "dmesg"), promoted)
	require.NotContains(t, w.mustExec(t, "n1", "dmesg"), promoted, "in all the time since it started")
	w.unstageAndUnpublish(t, v, "n2")
}

// forcePrimary forces a node to be primary, as an operator does, and publishes there.
func (w *env) forcePrimary(t *testing.T, v *volume, from, to string) {
	t.Helper()
	host, err := w.cluster.Host(t.Context(), to)
	require.NoError(t, err)
	eventually(t, timeout, "it is forced", func(ctx context.Context) error {
		out, code, err := w.cluster.Admin(ctx, "volumes", "force-primary", v.id, to, "--reason", "n1 is dead", "--peer-dead", "--host-id", host, "--yes")
		if err == nil && code == lab.Unavailable { // the leader's guest was stalled
			err = fmt.Errorf("exit code %d: %s", code, out)
		}
		if err == nil {
			require.Zero(t, code, out)
		}
		return err
	})
	w.unpublishUnreachable(t, v, from)
	require.NoError(t, w.co.publish(t.Context(), v, to))
}
