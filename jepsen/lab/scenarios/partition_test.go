package scenarios

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// TestAPrimaryThatIsCutOffLoses: the primary is isolated from its peer and from the controllers, or from the
// controllers only with a healthy replication link. Its writes are suspended and the other replica is promoted.
// The former primary overwrites nothing, its writers end with an error, and it is resynchronised. The short form has the
// second one, where the former primary's peer would have gone on with it.
func TestAPrimaryThatIsCutOffLoses(t *testing.T) {
	for name, cut := range map[string][]lab.Network{
		"from its peer and the controllers": {lab.Replication, lab.API},
		"from the controllers only":         {lab.API},
	} {
		t.Run(name, func(t *testing.T) {
			if !*long && len(cut) > 1 {
				t.Skip("the long form has it (-long)")
			}
			for range rounds() {
				isolateAndTakeOver(t, cut)
			}
		})
	}
}

// TestS9_ADirectWriterOfAPrimaryThatIsCutOff: the completion of a write is all that its writer waits for, no sync follows, and
// the disk of the replica that lost had the write, as its peer went in the middle of it. It is acknowledged to nobody: the
// writer is killed first. For ext4 it is so where the device does not ask for a flush, which the guests' disks do by default.
func TestS9_ADirectWriterOfAPrimaryThatIsCutOff(t *testing.T) {
	for range rounds() {
		w := newScenario(t)
		raw, file := w.replicated(t, "direct-raw", true), w.replicated(t, "direct", false)
		raw.durable, file.durable = "aio", "dsync"
		w.isolateAndTakeOver(t, []lab.Network{lab.Replication, lab.API}, raw, file)
		for _, v := range []*volume{raw, file} {
			require.Regexp(t, "killed a process that had the volume open for writing.*"+v.id, w.guest("n1").Log("node"))
		}
	}
}

func isolateAndTakeOver(t *testing.T, cut []lab.Network) {
	w := newScenario(t)
	w.isolateAndTakeOver(t, cut, w.replicated(t, "cut", false), w.replicated(t, "cut-raw", true))
}

func (w *env) isolateAndTakeOver(t *testing.T, cut []lab.Network, volumes ...*volume) {
	t.Helper()
	var old []*writer
	for _, v := range volumes {
		w.publishAndStage(t, v, "n1")
		w.awaitInSync(t, v)
		if v.durable != "" {
			w.mustExec(t, "n1", "for q in /sys/block/drbd*/queue/write_cache; do echo 'write through' >$q; done")
		}
		old = append(old, w.write(t, v, "n1", 1))
	}
	w.takeOver(t, cut, volumes, old)
}

// takeOver isolates n1, where each volume is written to, has n2 take them over, and leaves them unused on both.
func (w *env) takeOver(t *testing.T, cut []lab.Network, volumes []*volume, old []*writer) {
	t.Helper()
	for _, x := range old {
		x.awaitBlocks(t, 30)
	}
	w.isolateInSync(t, cut, volumes...)
	var fresh []*writer
	var frozenAt []uint64
	for i, v := range volumes {
		w.unpublishUnreachable(t, v, "n1")
		called := time.Now()
		require.NoError(t, w.co.publish(t.Context(), v, "n2"))
		t.Logf("%s: the second half of the takeover took %s", v.name, time.Since(called).Round(time.Millisecond))
		old[i].awaitFrozen(t)
		require.NoError(t, w.co.stage(t.Context(), v, "n2"))
		acked := old[i].readAcks().Number
		frozenAt = append(frozenAt, acked)
		w.requireAcknowledged(t, v, "n2", acked)
		x := w.write(t, v, "n2", acked+1)
		x.awaitBlocks(t, 30)
		fresh = append(fresh, x)
	}
	require.NoError(t, w.lab.ReconnectAll(t.Context()))
	healed := time.Now()
	restarted := false
	for i, v := range volumes {
		restarted = restarted || w.awaitWriterError(t, old[i], frozenAt[i])
		require.Equal(t, frozenAt[i], old[i].readAcks().Number, "nothing was acknowledged after the freeze")
		t.Logf("%s: the old side gave up at the latest %s after the healing; restarted: %t", v.name, time.Since(healed).Round(time.Millisecond), restarted)
	}
	for i, v := range volumes {
		w.awaitSynchronised(t, v, "n2", "the outdated replica is synchronised")
		d, err := w.kernel(t.Context(), v, "n1")
		require.NoError(t, err)
		require.Equal(t, "Secondary", d.role)
		last := fresh[i].stop(t)
		require.Empty(t, last.Error)
		w.requireAcknowledged(t, v, "n2", last.Number)
		w.unstageAndUnpublish(t, v, "n2")
	}
	w.noSplitBrain(t)
	w.awaitKept(t, "n1", volumes...)
	for _, v := range volumes { // the former primary's content equals the other's
		w.publishAndStage(t, v, "n1")
		w.unstageAndUnpublish(t, v, "n1")
	}
}

// isolateInSync isolates the first host while the log has the second one's replicas as up to date. A kernel that stood
// still for a moment may have lost its peer just before; such a replica takes nothing over, rightly.
func (w *env) isolateInSync(t *testing.T, cut []lab.Network, volumes ...*volume) {
	t.Helper()
	for {
		for _, n := range cut {
			require.NoError(t, w.lab.Isolate(t.Context(), n, 1))
		}
		w.awaitState(t, "n2", "reachable")
		i := slices.IndexFunc(volumes, func(v *volume) bool { return !w.isUpToDateOn(t, v, "n2") })
		if i < 0 {
			return
		}
		t.Logf("%s was outdated when its primary was cut off; once more", volumes[i].name)
		require.NoError(t, w.lab.ReconnectAll(t.Context()))
		for _, v := range volumes {
			w.awaitInSync(t, v)
		}
	}
}

// isUpToDateOn tells whether the log has the replica on the host as up to date.
func (w *env) isUpToDateOn(t *testing.T, v *volume, node string) bool {
	t.Helper()
	s, err := w.logState(t.Context(), v)
	require.NoError(t, err)
	i := slices.IndexFunc(s.Replicas, func(r replicaState) bool { return r.Node == node })
	return i >= 0 && s.Replicas[i].UpToDate
}

// awaitWriterError waits until the writer on the former primary was killed, or ended with an error where it had nothing open
// then: suspended and in-flight writes end with EIO, none successfully for anybody (S9). A flush that was in flight when the I/O was suspended stays in
// the kernel forever (executor/drbd/DESIGN.md): the host then reports that it cannot tear its replica down, and
// is restarted, as an operator would.
func (w *env) awaitWriterError(t *testing.T, x *writer, frozenAt uint64) (restarted bool) {
	t.Helper()
	eventually(t, timeout, x.name+" ends with an error", func(ctx context.Context) error {
		a := x.readAcks()
		if a.Error == "" && w.hasStuckFlush(ctx, x) {
			restarted = true
			return nil
		}
		if a.Error == "" && !x.wasKilled(ctx) {
			return fmt.Errorf("it is at %+v", a)
		}
		return nil
	})
	require.Equal(t, frozenAt, x.readAcks().Number, "nothing was acknowledged after the freeze")
	if restarted {
		require.NoError(t, w.guest(x.node).Crash())
		require.NoError(t, w.bootGuest(t.Context(), w.guest(x.node)))
		return true
	}
	if why := x.readAcks().Error; why != "" {
		require.Regexp(t, "input/output error|read-only file system", why)
	}
	return false
}

// hasStuckFlush reports whether a thread on the writer's host waits for a flush, and the host said of the volume that it
// could not be torn down, or that its requests hang.
func (w *env) hasStuckFlush(ctx context.Context, x *writer) bool {
	if _, message, err := w.condition(ctx, x.v); message != plan.RequestsHang && !w.couldNotTearDown(x) || err != nil {
		return false
	}
	_, code, err := w.guest(x.node).Exec(ctx, "cat /proc/[0-9]*/task/*/stack 2>/dev/null | grep -q blkdev_issue_flush")
	return err == nil && code == 0
}

func (w *env) couldNotTearDown(x *writer) bool {
	for line := range strings.Lines(w.guest(x.node).Log("node")) {
		if strings.Contains(line, "could not be torn down") && strings.Contains(line, x.v.id) {
			return true
		}
	}
	return false
}

// TestAnOutdatedPeerIsNeverPromoted: only the replication link is interrupted. The primary continues after its
// peer was recorded as outdated; the peer cannot become primary, also after a reboot of both with the stale one
// first.
func TestAnOutdatedPeerIsNeverPromoted(t *testing.T) {
	w := newScenario(t)
	v := w.replicated(t, "stale", false)
	w.publishAndStage(t, v, "n1")
	w.awaitInSync(t, v)
	x := w.write(t, v, "n1", 1)
	x.awaitBlocks(t, 30)
	require.NoError(t, w.lab.Partition(t.Context(), lab.Replication, []int{1}, []int{2}))
	w.awaitKernel(t, v, "n1", timeout, "it noticed, and goes on alone", func(d drbdState) bool {
		return d.connection != "Connected" && !d.suspended
	})
	x.awaitBlocks(t, 50)
	t.Logf("writes were frozen for %s", x.readAcks().Longest)
	require.NoError(t, w.guest("n1").Crash())
	acked := x.readAcks().Number
	require.NoError(t, w.guest("n2").Crash())
	require.NoError(t, w.bootGuest(t.Context(), w.guest("n2")))
	w.awaitState(t, "n2", "reachable")
	w.requireRefused(t, v, "n1", "n2")
	require.NoError(t, w.bootGuest(t.Context(), w.guest("n1")))
	w.awaitState(t, "n1", "reachable")
	w.requireRefused(t, v, "n1", "n2")
	require.NoError(t, w.lab.ReconnectAll(t.Context()))
	w.awaitSynchronised(t, v, "n1", "both are synchronised")
	w.unpublishUnreachable(t, v, "n2")
	w.unpublishUnreachable(t, v, "n1")
	w.publishAndStage(t, v, "n1")
	w.requireAcknowledged(t, v, "n1", acked)
	w.unstageAndUnpublish(t, v, "n1")
	w.publishAndStage(t, v, "n2")
	w.requireAcknowledged(t, v, "n2", acked)
	w.unstageAndUnpublish(t, v, "n2")
	w.noSplitBrain(t)
}

// requireRefused tries everything that an orchestrator can to use the volume on a stale replica.
func (w *env) requireRefused(t *testing.T, v *volume, from, to string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if err := w.co.unpublish(ctx, v, from); err != nil {
		t.Logf("unpublish from %s: %v", from, err)
	}
	for range 3 {
		attempt, end := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := w.co.controllers[w.co.takeTurn()].ControllerPublishVolume(attempt, w.co.publishRequest(v, to))
		end()
		require.Error(t, err, "%s has stale data", to)
		t.Logf("publish to %s: %v", to, err)
		d, err := w.kernel(t.Context(), v, to)
		require.NoError(t, err)
		require.NotEqual(t, "Primary", d.role)
	}
}
