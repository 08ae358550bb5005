package controller_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// CSI-CTRL-CreateVolume-03, -04, CSI-GEN-Conc-01, -02, CSI-GEN-Error-08: calls that
// overlap join one volume.
func TestCreateVolumeConcurrently(t *testing.T) {
	w := newEnv(t)
	w.host.update(func(h *fakeHost) { h.idle = true })
	var group sync.WaitGroup
	ids := make([]string, 32)
	for i := range ids {
		group.Go(func() {
			resp, err := w.CreateVolume(t.Context(), createRequest("v"))
			assert.NoError(t, err)
			ids[i] = resp.GetVolume().GetVolumeId()
		})
	}
	t.Cleanup(group.Wait) // what may fail the test must not outlive it
	require.Eventually(t, func() bool { return w.cluster.watcherCount() == len(ids) }, time.Minute, time.Millisecond)
	w.host.update(func(h *fakeHost) { h.idle = false })
	w.host.reconcile()
	group.Wait()
	require.Equal(t, []fsm.VolumeID{fsm.VolumeID(ids[0])}, w.cluster.volumes())
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	require.Zero(t, w.cluster.watcherCount())
}

// CSI-GEN-Conc-02..04: a call that cannot finish says ABORTED before its deadline,
// the work goes on, and the retry joins it.
func TestCreateVolumeNearItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		w.host.update(func(h *fakeHost) { h.idle = true })
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			_, err := w.CreateVolume(ctx, createRequest("v"))
			requireCode(t, codes.Aborted, err)
			require.NoError(t, ctx.Err(), "the answer came before the deadline")
			cancel()
		}
		ids := w.cluster.volumes()
		require.Len(t, ids, 1)
		w.host.update(func(h *fakeHost) { h.idle = false })
		require.Equal(t, string(ids[0]), w.create(t, "v"))
		require.Equal(t, ids, w.cluster.volumes())
	})
}

// CSI-CTRL-CreateVolume-40: what the host could not make is told, and the next call
// with the name places it again.
func TestCreateVolumeThatFails(t *testing.T) {
	for name, tc := range map[string]struct {
		failed *fsmpb.StepFailed
		want   codes.Code
	}{
		"a full pool":     {&fsmpb.StepFailed{Step: "create", Error: "no space left on device", Final: true, NoSpace: true}, codes.ResourceExhausted},
		"a broken device": {&fsmpb.StepFailed{Step: "create", Error: "input/output error", Final: true}, codes.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			w.host.update(func(h *fakeHost) { h.fail = tc.failed })
			_, err := w.CreateVolume(t.Context(), createRequest("v"))
			requireCode(t, tc.want, err)
			require.Contains(t, status.Convert(err).Message(), tc.failed.GetError())
			failed := w.cluster.volumes()
			require.Len(t, failed, 1)

			w.host.update(func(h *fakeHost) { h.fail = nil })
			id := w.create(t, "v")
			require.NotEqual(t, string(failed[0]), id)
			require.Equal(t, []fsm.VolumeID{fsm.VolumeID(id)}, w.cluster.volumes(), "the failed device is owed and was removed")
		})
	}
}

// TestCreateVolumeCancelled: an operator gave up, the caller may try again.
func TestCreateVolumeCancelled(t *testing.T) {
	w := newEnv(t)
	w.host.update(func(h *fakeHost) { h.idle = true })
	done := make(chan error, 1)
	go func() {
		_, err := w.CreateVolume(t.Context(), createRequest("v"))
		done <- err
	}()
	require.Eventually(t, func() bool { return w.cluster.watcherCount() == 1 }, time.Minute, time.Millisecond)
	_, err := w.cluster.apply("admin/a", &fsmpb.Command{Body: &fsmpb.Command_CancelOperation{CancelOperation: &fsmpb.CancelOperation{OperationId: w.operation(t)}}})
	require.NoError(t, err)
	requireCode(t, codes.Aborted, <-done)
}

// operation is the only one.
func (w *env) operation(t testing.TB) (id uint64) {
	t.Helper()
	_ = w.cluster.View(func(s *fsm.State) error {
		for v := range s.Operations() {
			id = uint64(v.Operation.ID)
		}
		return nil
	})
	require.NotZero(t, id)
	return id
}

// TestCreateVolumeDeletedMeanwhile: the waiting call is told to begin again.
func TestCreateVolumeDeletedMeanwhile(t *testing.T) {
	w := newEnv(t)
	w.host.update(func(h *fakeHost) { h.idle = true })
	done := make(chan error, 1)
	go func() {
		_, err := w.CreateVolume(t.Context(), createRequest("v"))
		done <- err
	}()
	require.Eventually(t, func() bool { return w.cluster.watcherCount() == 1 }, time.Minute, time.Millisecond)
	_, err := w.cluster.apply("controller/c2", &fsmpb.Command{Body: &fsmpb.Command_DeleteVolume{DeleteVolume: &fsmpb.DeleteVolume{VolumeId: string(w.cluster.volumes()[0])}}})
	require.NoError(t, err)
	requireCode(t, codes.Aborted, <-done)
}

// The state in memory is read and changed at once, as a member's is.
func TestReadIndexDuringProposals(t *testing.T) {
	c := newCluster(t)
	var proposing sync.WaitGroup
	defer proposing.Wait()
	proposing.Go(func() {
		for range 200 {
			_, _ = c.apply("admin/a", &fsmpb.Command{Body: &fsmpb.Command_CancelOperation{CancelOperation: &fsmpb.CancelOperation{OperationId: 1}}})
		}
	})
	for range 200 {
		var seen uint64
		index, err := c.Read(t.Context(), func(s *fsm.State) error {
			seen = s.Cluster().Index
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, seen, index)
	}
}
