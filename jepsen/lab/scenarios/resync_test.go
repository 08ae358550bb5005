package scenarios

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// TestAnInconsistentReplicaIsNeverPromoted: a synchronisation is interrupted on either side. The inconsistent
// replica is never promoted, and the synchronisation is finished afterwards.
func TestAnInconsistentReplicaIsNeverPromoted(t *testing.T) {
	for name, dies := range map[string]string{"its source dies": "n1", "its target dies": "n2"} {
		t.Run(name, func(t *testing.T) {
			w := newScenario(t)
			v := w.replicated(t, "resync", false)
			w.publishAndStage(t, v, "n1")
			w.awaitInSync(t, v)
			require.NoError(t, w.lab.Partition(t.Context(), lab.Replication, []int{1}, []int{2}))
			w.awaitKernel(t, v, "n1", timeout, "it goes on alone", func(d drbdState) bool { return d.connection != "Connected" && !d.suspended })
			w.mustExec(t, "n1", fmt.Sprintf("dd if=/dev/urandom of=%s/fill bs=1M count=12 conv=fsync 2>/dev/null", v.target()))
			x := w.write(t, v, "n1", 1)
			x.awaitBlocks(t, 20)
			acked := x.stop(t).Number
			w.limitResyncRate(t, v, "n1", "256K")
			w.limitResyncRate(t, v, "n2", "256K")
			require.NoError(t, w.lab.ReconnectAll(t.Context()))
			w.awaitKernel(t, v, "n2", timeout, "it is being synchronised", func(d drbdState) bool { return d.connection == "SyncTarget" })
			time.Sleep(time.Second) // what was copied by then is on stable storage, or not
			require.NoError(t, w.guest(dies).Crash())
			if dies == "n1" {
				w.awaitState(t, "n1", "unreachable")
				w.requireRefused(t, v, "n1", "n2")
				w.limitResyncRate(t, v, "n2", "100M")
			} else {
				w.limitResyncRate(t, v, "n1", "100M")
				w.mustExec(t, "n1", fmt.Sprintf("touch %s/alive && sync -f %s/alive", v.target(), v.target()))
			}
			require.NoError(t, w.bootGuest(t.Context(), w.guest(dies)))
			w.awaitState(t, dies, "reachable")
			w.awaitSynchronised(t, v, "n2", "it is synchronised")
			if dies == "n2" {
				w.requireFullSync(t, v, "n2")
				w.unstageAndUnpublish(t, v, "n1")
			}
			w.requireBothUpToDate(t, v, "n2", acked)
		})
	}
}

// requireFullSync requires a full synchronisation: what a target that lost its power had on stable storage is unknown.
func (w *env) requireFullSync(t *testing.T, v *volume, node string) {
	t.Helper()
	log, most := w.mustExec(t, node, "dmesg"), int64(0)
	for _, m := range resyncBegan.FindAllStringSubmatch(log, -1) {
		kib, err := strconv.ParseInt(m[1], 10, 64)
		require.NoError(t, err)
		most = max(most, kib)
	}
	require.GreaterOrEqual(t, most, v.size>>10, log)
}

// resyncBegan is the kernel's line of a synchronisation, with the KiB that are copied. A device may be a little larger
// than its volume.
var resyncBegan = regexp.MustCompile(`Began resync as SyncTarget \(will sync (\d+) KB`)

// limitResyncRate limits a synchronisation to a rate in bytes a second: 256K is slow enough that it does not
// finish during the scenario.
func (w *env) limitResyncRate(t *testing.T, v *volume, node, rate string) {
	t.Helper()
	w.mustExec(t, node, fmt.Sprintf("drbdadm disk-options --c-plan-ahead=0 --resync-rate=%s %s", rate, v.id))
}

// TestAFreedNameIsANewVolume: a name is created, deleted and created again. There is no old data, no split brain
// at the initial synchronisation, and no reuse of a minor or port before both hosts reported it free.
func TestAFreedNameIsANewVolume(t *testing.T) {
	w := newScenario(t)
	v := &volume{name: "again", size: 32 * mi, block: true}
	turns := 2
	if *long {
		turns = 3
	}
	for i := range turns {
		require.NoError(t, w.co.create(t.Context(), v, []string{"n1", "n2"}, map[string]string{"replicas": "2"}))
		node := []string{"n1", "n2"}[i%2]
		w.publishAndStage(t, v, node)
		require.Equal(t, "0", strings.TrimSpace(w.mustExec(t, node, fmt.Sprintf("dd if=%s bs=1M count=%d iflag=direct 2>/dev/null | tr -d '\\0' | wc -c", v.target(), v.size/mi))), "it reads as zero")
		w.mustExec(t, node, fmt.Sprintf("yes secret | dd of=%s bs=1M count=16 iflag=fullblock oflag=direct 2>/dev/null", v.target()))
		w.unstageAndUnpublish(t, v, node)
		require.NoError(t, w.co.delete(t.Context(), v))
	}
	t.Run("with a host away the minor stays taken", func(t *testing.T) {
		if !*long {
			t.Skip("the long form has it, and the tests of the state machine")
		}
		require.NoError(t, w.co.create(t.Context(), v, []string{"n1", "n2"}, map[string]string{"replicas": "2"}))
		first := w.minor(t, v, "n1")
		require.NoError(t, w.lab.Isolate(t.Context(), lab.API, 2))
		w.awaitState(t, "n2", "unreachable")
		require.NoError(t, w.co.delete(t.Context(), v))
		other := &volume{name: v.name, size: v.size, block: true}
		require.NoError(t, w.co.create(t.Context(), other, []string{"n1", "n3"}, map[string]string{"replicas": "2"}))
		require.NotEqual(t, first, w.minor(t, other, "n1"))
		require.NoError(t, w.co.delete(t.Context(), other))
		require.NoError(t, w.lab.ReconnectAll(t.Context()))
	})
	w.noSplitBrain(t)
}

func (w *env) minor(t *testing.T, v *volume, node string) string {
	t.Helper()
	minor, err := w.configuredMinor(t.Context(), v, node)
	require.NoError(t, err)
	return minor
}

// TestS7_S10_AFlappingLink: the link flaps while a writer works. Each loss has a request to outdate the peer of its own, and
// after each return both replicas are recorded as up to date again (S7, S10). It is noticed or not noticed before it returns;
// the long form has each more often.
func TestS7_S10_AFlappingLink(t *testing.T) {
	w := newScenario(t)
	v := w.replicated(t, "flap", false)
	w.publishAndStage(t, v, "n1")
	x := w.write(t, v, "n1", 1)
	times := 2
	if *long {
		times = 4
	}
	for i := range times {
		w.awaitInSync(t, v)
		require.NoError(t, w.lab.Partition(t.Context(), lab.Replication, []int{1}, []int{2}))
		if i%2 == 0 {
			w.awaitKernel(t, v, "n1", timeout, "it noticed", func(d drbdState) bool { return d.connection != "Connected" })
		} else {
			x.awaitFrozen(t)
		}
		require.NoError(t, w.lab.ReconnectAll(t.Context()))
		w.awaitKernel(t, v, "n1", resyncTimeout, "both are synchronised", func(d drbdState) bool { return isUpToDate(d) && !d.suspended })
		x.awaitBlocks(t, 10)
		w.awaitHealthy(t, v)
	}
	last := x.stop(t)
	require.Empty(t, last.Error)
	w.requireAcknowledged(t, v, "n1", last.Number)
	w.awaitInSync(t, v)
	require.NoError(t, w.guest("n1").Crash())
	w.unpublishUnreachable(t, v, "n1")
	w.publishAndStage(t, v, "n2")
	w.requireAcknowledged(t, v, "n2", last.Number)
	require.NoError(t, w.bootGuest(t.Context(), w.guest("n1")))
	w.awaitSynchronised(t, v, "n2", "both are synchronised")
	w.unstageAndUnpublish(t, v, "n2")
	w.noSplitBrain(t)
}

// awaitHealthy waits until CSI reports the volume as healthy: both replicas are up to date.
func (w *env) awaitHealthy(t *testing.T, v *volume) {
	t.Helper()
	eventually(t, timeout, "the volume is well", func(ctx context.Context) error {
		abnormal, message, err := w.condition(ctx, v)
		if err == nil && abnormal {
			err = fmt.Errorf("it says %q", message)
		}
		return err
	})
}

func (w *env) condition(ctx context.Context, v *volume) (abnormal bool, message string, err error) {
	resp, err := w.co.controllers[w.co.takeTurn()].ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: v.id})
	c := resp.GetStatus().GetVolumeCondition()
	return c.GetAbnormal(), c.GetMessage(), err
}
