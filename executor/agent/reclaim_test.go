package agent_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const gib = 1 << 30

func reclaimOf(id fsm.VolumeID) executor.ReclaimRequest {
	return executor.ReclaimRequest{Volume: id, Path: stagingPath}
}

// writeAndDelete leaves four blocks in the pool of which the filesystem uses one.
func (w *testHost) writeAndDelete(id fsm.VolumeID) {
	w.pool.Write(id, 0, []byte("beside it"))
	w.pool.Write(id, backendtest.BlockBytes, make([]byte, 3*backendtest.BlockBytes))
}

// ADD-RS-NodeReclaimSpace-02, -04, -19, S61: the mounted filesystem's own FITRIM gives back what was
// deleted, and nothing beside it; repeated, it has nothing to give back.
func TestS61_ReclaimDiscardsWhatTheFilesystemDoesNotUse(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, mountCap)))
	w.writeAndDelete(id)
	for i, path := range []string{stagingPath, targetPath} {
		used, err := w.e.ReclaimSpace(t.Context(), executor.ReclaimRequest{Volume: id, Path: path, Capability: mountCap})
		require.NoError(t, err)
		require.True(t, used.Known)
		require.EqualValues(t, []int{4, 1}[i]*backendtest.BlockBytes, used.Before)
		require.EqualValues(t, backendtest.BlockBytes, used.After)
	}
	require.Equal(t, []int64{0, gib, 2 * gib, 0, gib, 2 * gib}, w.mounter.trims(), "by ranges of 1 GiB")
	require.True(t, w.pool.Content(id).Contains("beside it"))
}

// ADD-RS-NodeReclaimSpace-03, -11, S61: what has nothing to discard is measured.
func TestS61_ARawOrReadOnlyVolumeIsMeasuredOnly(t *testing.T) {
	for name, capability := range map[string]fsm.Capability{
		"raw":       blockCap,
		"read-only": {Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_READER_ONLY, FSType: "ext4"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestHost(t)
			id, _ := w.staged(capability)
			w.writeAndDelete(id)
			for range 2 {
				used, err := w.e.ReclaimSpace(t.Context(), reclaimOf(id))
				require.NoError(t, err)
				require.Equal(t, executor.SpaceUsage{Known: true, Before: 4 * backendtest.BlockBytes, After: 4 * backendtest.BlockBytes}, used)
			}
			require.Empty(t, w.mounter.trims())
		})
	}
}

// ADD-RS-NodeReclaimSpace-15, -16: where the volume is not, and what it is not staged for.
func TestReclaimIsRefusedWhereTheVolumeIsNot(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	unstaged := backendtest.NewID()
	w.create(unstaged, mountCap)
	for name, tc := range map[string]struct {
		req  executor.ReclaimRequest
		want fsm.Reason
	}{
		"an unknown volume":           {reclaimOf(backendtest.NewID()), fsm.NotFound},
		"an invalid id":               {reclaimOf("x"), fsm.NotFound},
		"another path":                {executor.ReclaimRequest{Volume: id, Path: "/elsewhere"}, fsm.NotFound},
		"a target that is not bound":  {executor.ReclaimRequest{Volume: id, Path: targetPath}, fsm.NotFound},
		"a volume that is not staged": {reclaimOf(unstaged), fsm.NotFound},
		"another kind of use":         {executor.ReclaimRequest{Volume: id, Path: stagingPath, Capability: blockCap}, fsm.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				_, err := w.e.ReclaimSpace(t.Context(), tc.req)
				require.Equal(t, tc.want, reasonOf(err))
			}
		})
	}
	w.mounter.setFail(func(effect, _ string) error {
		if effect == "trim" {
			return fsm.Reject(fsm.Unsupported, "it cannot discard")
		}
		return nil
	})
	_, err := w.e.ReclaimSpace(t.Context(), reclaimOf(id))
	require.Equal(t, fsm.Unsupported, reasonOf(err))
	w.mounter.setFail(func(string, string) error { return errors.New("an I/O error") })
	_, err = w.e.ReclaimSpace(t.Context(), reclaimOf(id))
	require.ErrorContains(t, err, "trim volume "+string(id))
	require.NotZero(t, epoch)
}

// S61: a filesystem that an earlier process left frozen, or that is held for a group snapshot, is not trimmed.
func TestS61_NothingIsDiscardedWhileFrozen(t *testing.T) {
	w := newTestHost(t)
	id, _ := w.staged(mountCap)
	w.freezer.left[id] = true
	for range 2 {
		_, err := w.e.ReclaimSpace(t.Context(), reclaimOf(id))
		require.Equal(t, fsm.Busy, reasonOf(err))
	}
	require.Empty(t, w.mounter.trims())
}

// blockTrim stops a trim at its second step until resume is called; what comes later is not stopped.
func (w *testHost) blockTrim() (reached <-chan struct{}, resume func()) {
	at, release := make(chan struct{}), make(chan struct{})
	n := 0
	w.mounter.setFail(func(effect, _ string) error {
		if effect != "trim" {
			return nil
		}
		if n++; n == 2 {
			close(at)
			<-release
		}
		return nil
	})
	return at, func() { close(release) }
}

// ADD-RS-NodeReclaimSpace-16, S61, S121: a concurrent reclaim is Busy, and a retry joins one whose caller
// gave up.
func TestS61_ARetryJoinsTheTrim(t *testing.T) { synctest.Test(t, testARetryJoinsTheTrim) }

func testARetryJoinsTheTrim(t *testing.T) {
	w := newTestHost(t)
	id, _ := w.staged(mountCap)
	reached, resume := w.blockTrim()
	ctx, cancel := withTimeout(t, 1000)
	defer cancel()
	first := make(chan error, 1)
	go func() { _, err := w.e.ReclaimSpace(ctx, reclaimOf(id)); first <- err }()
	<-reached
	_, err := w.e.ReclaimSpace(t.Context(), reclaimOf(id))
	require.Equal(t, fsm.Busy, reasonOf(err), "also the same call")
	require.Equal(t, fsm.Busy, reasonOf(<-first), "its caller's time is up")
	joined := make(chan error, 1)
	go func() { _, err := w.e.ReclaimSpace(t.Context(), reclaimOf(id)); joined <- err }()
	synctest.Wait()
	resume()
	require.NoError(t, <-joined)
	require.Len(t, w.mounter.trims(), 3, "once")
}

// S61: a call that is refused because of a trim ends it before its next range, and the next reclaim goes
// on where that ended.
func TestS61_OtherCallsComeBeforeATrim(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	w.writeAndDelete(id)
	reached, resume := w.blockTrim()
	trim := make(chan error, 1)
	go func() { _, err := w.e.ReclaimSpace(t.Context(), reclaimOf(id)); trim <- err }()
	<-reached
	publish := w.publishRequest(id, epoch, mountCap)
	require.Equal(t, fsm.Busy, reasonOf(w.e.PublishTarget(t.Context(), publish)))
	resume()
	require.Equal(t, fsm.Busy, reasonOf(<-trim))
	require.NoError(t, w.e.PublishTarget(t.Context(), publish))
	used, err := w.e.ReclaimSpace(t.Context(), reclaimOf(id))
	require.NoError(t, err)
	require.Equal(t, []int64{0, gib, 2 * gib}, w.mounter.trims())
	require.EqualValues(t, 4*backendtest.BlockBytes, used.Before, "from before its beginning")
	require.EqualValues(t, backendtest.BlockBytes, used.After)
}

// S61: a growth that is decided during a trim ends it.
func TestS61_ATrimEndsForAGrowth(t *testing.T) {
	w := newTestHost(t)
	id, _ := w.staged(mountCap)
	reached, resume := w.blockTrim()
	trim := make(chan error, 1)
	go func() { _, err := w.e.ReclaimSpace(t.Context(), reclaimOf(id)); trim <- err }()
	<-reached
	w.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_ExpandVolume{ExpandVolume: &fsmpb.ExpandVolume{VolumeId: string(id), RequiredBytes: 2 * testSize}}})
	resume()
	require.Equal(t, fsm.Busy, reasonOf(<-trim))
	w.eventually(func() bool { v, _ := w.volume(id); return v.Replicas[0].Size == 2*testSize }, "it grows")
	_, err := w.e.ReclaimSpace(t.Context(), reclaimOf(id))
	require.NoError(t, err)
}

func (c *testCluster) beginReclaim(id fsm.VolumeID) fsm.Epoch {
	c.t.Helper()
	return fsm.EpochFrom(c.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_BeginReclaim{BeginReclaim: &fsmpb.BeginReclaim{VolumeId: string(id)}}}).GetEpoch())
}

func (c *testCluster) endReclaim(id fsm.VolumeID) {
	c.t.Helper()
	c.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_EndReclaim{EndReclaim: &fsmpb.EndReclaim{VolumeId: string(id)}}})
}

func (c *testCluster) reclaimResult(id fsm.VolumeID, epoch fsm.Epoch) (*fsm.Reclaimed, *fsm.Rejection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.VolumeReclaim(id, epoch)
}

// unpublished is a volume with a filesystem that nobody uses.
func (w *testHost) unpublished() fsm.VolumeID {
	w.t.Helper()
	id, _ := w.staged(mountCap)
	require.NoError(w.t, w.e.Unstage(w.t.Context(), id, stagingPath))
	w.eventually(func() bool { return w.publication(id).Staging == nil }, "the log knows")
	require.NoError(w.t, w.unpublishVolume(id))
	return id
}

// stageWhenFree stages as an orchestrator does: the last of the reclaim, which is a call without a caller, may
// still be under way on the host when the log has its end.
func (w *testHost) stageWhenFree(id fsm.VolumeID, epoch fsm.Epoch) {
	w.t.Helper()
	w.eventually(func() bool {
		err := w.e.Stage(w.t.Context(), w.stageRequest(id, epoch, mountCap))
		var rej *fsm.Rejection
		if errors.As(err, &rej) && rej.Reason == fsm.Busy {
			return false
		}
		require.NoError(w.t, err)
		return true
	}, "it is staged")
}

// awaitReclaim waits until the reclaim has ended.
func (w *testHost) awaitReclaim(id fsm.VolumeID, epoch fsm.Epoch) (r *fsm.Reclaimed, rej *fsm.Rejection) {
	w.t.Helper()
	w.eventually(func() bool {
		r, rej = w.reclaimResult(id, epoch)
		return r != nil || rej != nil
	}, "the reclaim ends")
	return r, rej
}

// ADD-RS-ControllerReclaimSpace-02, -04, -14, S61: a volume that nobody uses is trimmed by a mount that is
// attached to no path, and nothing of it is up afterwards.
func TestS61_AnUnpublishedVolumeIsReclaimedByAPrivateMount(t *testing.T) {
	w := newTestHost(t)
	id := w.unpublished()
	w.writeAndDelete(id)
	mounted := w.mounter.count("mount")
	for i := range 2 {
		r, rej := w.awaitReclaim(id, w.beginReclaim(id))
		require.Nil(t, rej)
		require.EqualValues(t, []int{4, 1}[i]*backendtest.BlockBytes, r.Before)
		require.EqualValues(t, backendtest.BlockBytes, r.After)
		require.True(t, r.Known)
		w.eventually(func() bool { return w.pool.ActiveDevices() == 0 }, "its device is gone")
	}
	require.Equal(t, mounted, w.mounter.count("mount"), "at no path")
	require.True(t, w.pool.Content(id).Contains("beside it"))
	w.stageWhenFree(id, w.publishVolume(id, mountCap))
}

// ADD-RS-ControllerReclaimSpace-11, S61: the end that is asked for comes before the next range, and the volume
// can be published and staged then.
func TestS61_APrivateTrimEndsWhenItIsAskedTo(t *testing.T) {
	w := newTestHost(t)
	id := w.unpublished()
	reached, resume := w.blockTrim()
	epoch := w.beginReclaim(id)
	<-reached
	require.Equal(t, epoch, w.beginReclaim(id), "a repetition joins")
	w.endReclaim(id)
	resume()
	_, rej := w.awaitReclaim(id, epoch)
	require.Equal(t, fsm.Busy, rej.Why(), "its caller retries")
	require.Equal(t, []int64{0, gib}, w.mounter.trims())
	w.stageWhenFree(id, w.publishVolume(id, mountCap))
}

// S61: a failure is told, and the volume is as it was.
func TestS61_APrivateTrimThatFailsIsTold(t *testing.T) {
	w := newTestHost(t)
	id := w.unpublished()
	w.mounter.setFail(func(effect, _ string) error {
		if effect == "trim" {
			return fsm.Reject(fsm.Unsupported, "it cannot discard")
		}
		return nil
	})
	for range 2 {
		_, rej := w.awaitReclaim(id, w.beginReclaim(id))
		require.Equal(t, fsm.Unsupported, rej.Why())
		w.eventually(func() bool { return w.pool.ActiveDevices() == 0 }, "its device is gone")
	}
	require.NoError(t, w.deleteVolume(id))
	w.eventually(func() bool { _, known := w.volume(id); return !known }, "it is gone")
	w.requireNothingLeft()
}

// S61: of a replicated volume the host that has the content is primary for the reclaim only, and the other one
// can have the volume at once afterwards.
func TestS61_AReplicatedVolumeIsReclaimedOnOneHost(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	p.waitUpToDate(id)
	a.stage(id, a.publish(id))
	a.write(id, "beside it")
	a.unstage(id)
	a.unpublish(id)
	p.waitUpToDate(id)
	for range 2 {
		epoch := fsm.EpochFrom(p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_BeginReclaim{BeginReclaim: &fsmpb.BeginReclaim{VolumeId: string(id)}}}).GetEpoch())
		require.False(t, epoch.IsZero())
		var rej *fsm.Rejection
		p.eventually("the reclaim ends", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			var r *fsm.Reclaimed
			r, rej = p.state.VolumeReclaim(id, epoch)
			return r != nil || rej != nil
		})
		require.Nil(t, rej)
		p.eventually("nobody is primary", func() bool {
			first, _ := a.replicator.Primary(id)
			second, _ := b.replicator.Primary(id)
			return !first && !second
		})
		p.waitUpToDate(id)
	}
	require.Len(t, append(a.mounter.trims(), b.mounter.trims()...), 2*3)
	b.stage(id, b.publish(id))
	require.True(t, has(b.replicator.DiskContent(id), "beside it"))
	b.unstage(id)
	b.unpublish(id)
	p.remove(id)
}
