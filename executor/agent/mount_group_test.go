package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S73, CSI-NODE-NodePublishVolume-19, -20: a file has one group, so another group must wait
// until the first target is gone; the refusal leaves nothing behind.
func TestOneMountGroupAtATime(t *testing.T) {
	w := newTestHost(t)
	many := fsm.Capability{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_MULTI_WRITER, FSType: "ext4"}
	id, epoch := w.staged(many)
	ask := func(path, group string) executor.PublishTargetRequest {
		r := w.publishRequest(id, epoch, many)
		r.TargetPath, r.MountGroup = path, group
		return r
	}
	require.NoError(t, w.e.PublishTarget(t.Context(), ask("/kubelet/a", "1000")))
	for range 2 {
		require.NoError(t, w.e.PublishTarget(t.Context(), ask("/kubelet/a", "1000")))
		require.NoError(t, w.e.PublishTarget(t.Context(), ask("/kubelet/b", "1000")))
		require.NoError(t, w.e.PublishTarget(t.Context(), ask("/kubelet/c", "")), "one that asks for no group")
		require.Equal(t, fsm.Incompatible, reasonOf(w.e.PublishTarget(t.Context(), ask("/kubelet/a", "2000"))), "the same path")
		require.Equal(t, fsm.Incompatible, reasonOf(w.e.PublishTarget(t.Context(), ask("/kubelet/a", ""))), "the same path")
		require.Equal(t, fsm.Precondition, reasonOf(w.e.PublishTarget(t.Context(), ask("/kubelet/d", "2000"))))
		readOnly := ask("/kubelet/e", "2000")
		readOnly.ReadOnly = true
		require.NoError(t, w.e.PublishTarget(t.Context(), readOnly), "nothing is written through it")
		w.restart()
	}
	require.Equal(t, []string{"1000", "1000", "", ""}, w.mounter.groups())
	require.Len(t, w.publication(id).Targets, 4, "the log never heard of what was refused")
	for _, path := range []string{"/kubelet/a", "/kubelet/b"} {
		require.NoError(t, w.e.UnpublishTarget(t.Context(), id, path))
	}
	require.NoError(t, w.e.PublishTarget(t.Context(), ask("/kubelet/d", "2000")))
}
