package controller_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	spec "github.com/csi-addons/spec/lib/go/replication"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/fsm"
)

// S30, S40, ADD-REPL-Promote-13, -14, -16: the other site is primary and can be asked: ABORTED with force too, and nothing changes.
func TestS30_APrimaryThatCanBeAskedKeepsItsRole(t *testing.T) {
	w := newSites(t)
	id := w.replicated(t, "v")
	require.NoError(t, w.publishTo(id, "n1"))
	before := w.recorded(id)
	w.cluster.actAs(t, "B")
	for range 2 {
		for _, force := range []bool{false, true} {
			requireCode(t, codes.Aborted, w.promote(t, ofVolume(id), force))
			require.Equal(t, before, w.recorded(id))
		}
	}
}

// S30, S31, S42, S41, ADD-REPL-Promote-13, -15: the other site cannot be asked, and this one has every write. The answer comes when
// it is cut off; a publish after it is never refused for the role. What comes back is not promoted before it demoted.
func TestS42_PromoteAnswersWhenTheOtherSiteIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSites(t)
		id := w.replicated(t, "v")
		require.NoError(t, w.publishTo(id, "n1"))
		w.setAway(t, "n1", true)
		w.cluster.actAs(t, "B")
		w.hostOf("n2").update(func(h *fakeHost) { h.idle = true })
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			_, err := w.roles.PromoteVolume(ctx, &spec.PromoteVolumeRequest{ReplicationSource: ofVolume(id)})
			cancel()
			requireCode(t, codes.Aborted, err)
			require.Contains(t, said(err), "not disconnected from site A")
			_, err = w.info(t, ofVolume(id))
			requireCode(t, codes.Aborted, err) // ADD-REPL-Info-05
		}
		w.hostOf("n2").update(func(h *fakeHost) { h.idle = false })
		w.cluster.reconcileHosts()
		for range 2 {
			require.NoError(t, w.promote(t, ofVolume(id), false))
		}
		require.NoError(t, w.publishTo(id, "n2"))
		got, err := w.info(t, ofVolume(id))
		require.NoError(t, err)
		require.Equal(t, spec.GetVolumeReplicationInfoResponse_ERROR, got.GetStatus(), "S45: A may still acknowledge writes")
		require.Contains(t, got.GetStatusMessage(), "site A")
		require.LessOrEqual(t, len(got.GetStatusMessage()), 128)

		w.cluster.site = "A"
		for range 2 {
			_, err := w.DeleteVolume(w.soon(t), &csi.DeleteVolumeRequest{VolumeId: id})
			requireCode(t, codes.Aborted, err) // S37
			require.Contains(t, said(err), "node n1 has not ended its use of it")
			requireCode(t, codes.Aborted, w.promote(t, ofVolume(id), true))
			requireCode(t, codes.Aborted, w.demote(t, ofVolume(id)))
		}
		w.setAway(t, "n1", false)
		w.cluster.reconcileHosts()
		for range 2 {
			require.NoError(t, w.demote(t, ofVolume(id)))
			ready, err := w.resync(t, ofVolume(id), true)
			require.NoError(t, err)
			require.True(t, ready)
			require.NoError(t, w.delete(t, id))
		}
		require.NoError(t, w.cluster.state.Check())
	})
}

// behind makes B lack writes of A, and A unreachable.
func (w *env) behind(t *testing.T) (id string) {
	t.Helper()
	id = w.replicated(t, "v")
	w.loseWritesOf(t, id)
	return id
}

// S30, S40, S44, S48, ADD-REPL-Promote-10, -11, -13, ADD-REPL-Resync-06, -12 to -15: force is asked for, gives up, and what was given
// up stays until a resynchronisation with force has kept it.
func TestS48_WhatWasGivenUpIsDiscardedWithForceOnly(t *testing.T) {
	w := newSites(t)
	id := w.behind(t)
	for range 2 {
		err := w.promote(t, ofVolume(id), false)
		requireCode(t, codes.FailedPrecondition, err)
		require.Contains(t, said(err), "force")
	}
	for range 2 {
		require.NoError(t, w.promote(t, ofVolume(id), true))
	}
	require.NoError(t, w.publishTo(id, "n2"))

	w.hostOf("n1").update(func(h *fakeHost) { h.cannotKeep = true })
	w.setAway(t, "n1", false)
	got, err := w.info(t, ofVolume(id))
	require.NoError(t, err)
	require.Equal(t, spec.GetVolumeReplicationInfoResponse_ERROR, got.GetStatus())
	w.cluster.site = "A"
	for range 2 {
		require.NoError(t, w.demote(t, ofVolume(id)))
		ready, err := w.resync(t, ofVolume(id), false)
		require.NoError(t, err)
		require.False(t, ready)
	}
	_, err = w.resync(t, ofVolume(id), true)
	for range 2 {
		w.cluster.reconcileHosts()
		_, err = w.resync(t, ofVolume(id), true)
		requireCode(t, codes.ResourceExhausted, err)
	}
	for range 2 {
		w.cluster.reconcileHosts()
		_, err = w.resync(t, ofVolume(id), true, "keep", "false")
	}
	require.NoError(t, err, "S48: the caller said so")
	w.cluster.reconcileHosts()
	for range 2 { // S51
		ready, err := w.resync(t, ofVolume(id), true)
		require.NoError(t, err)
		require.True(t, ready)
	}
	require.NoError(t, w.cluster.state.Check())
}

// S51, ADD-REPL-Resync-13, -14: ready can become false again.
func TestS51_ReadyIsWhatTheLogHasNow(t *testing.T) {
	w := newSites(t)
	id := w.replicated(t, "v")
	require.NoError(t, w.publishTo(id, "n1"))
	w.cluster.actAs(t, "B")
	ready, err := w.resync(t, ofVolume(id), false)
	require.NoError(t, err)
	require.True(t, ready)
	w.setAway(t, "n2", true)
	w.cluster.site = "A"
	require.NoError(t, w.unpublish(t, id, "n1"))
	require.NoError(t, w.publishTo(id, "n1"))
	w.cluster.site = "B"
	for range 2 {
		ready, err = w.resync(t, ofVolume(id), true)
		require.NoError(t, err)
		require.False(t, ready)
	}
	w.setAway(t, "n2", false)
	w.cluster.reconcileHosts()
	ready, err = w.resync(t, ofVolume(id), false)
	require.NoError(t, err)
	require.True(t, ready)
}

// S29, S36, S37: what CSI's own calls answer at the secondary, and that nothing changes by them.
func TestS37_ThroughTheSecondary(t *testing.T) {
	w := newSites(t)
	id := w.replicated(t, "v")
	require.NoError(t, w.publishTo(id, "n1"))
	w.cluster.actAs(t, "B")
	require.NoError(t, w.enable(t, ofVolume(id)))
	require.Equal(t, []fsm.Site{"A", "B"}, w.recorded(id).Relation.Claims)
	for range 2 {
		requireCode(t, codes.FailedPrecondition, w.publishTo(id, "n2"))
		requireCode(t, codes.NotFound, w.publishTo(id, "n1"))
		require.NoError(t, w.unpublish(t, id, ""))
		require.NoError(t, w.unpublish(t, id, "n1"))
		_, err := w.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: 4 * gib}})
		requireCode(t, codes.FailedPrecondition, err)
		_, err = w.ControllerModifyVolume(t.Context(), &csi.ControllerModifyVolumeRequest{VolumeId: id, MutableParameters: mapOf("iopsLimit", "100")})
		requireCode(t, codes.FailedPrecondition, err)
		_, err = w.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
		requireCode(t, codes.FailedPrecondition, err)
		got, err := w.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: id})
		require.NoError(t, err)
		require.Empty(t, got.GetStatus().GetPublishedNodeIds())
		list, err := w.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
		require.NoError(t, err)
		require.Empty(t, list.GetEntries()[0].GetStatus().GetPublishedNodeIds())
	}
	before := w.recorded(id)
	for range 2 {
		require.NoError(t, w.delete(t, id))
		require.NoError(t, w.disable(t, ofVolume(id)))
	}
	require.Equal(t, []fsm.Site{"A"}, w.recorded(id).Relation.Claims, "its claim ended")
	after := w.recorded(id)
	after.Relation, after.Modified = before.Relation, before.Modified
	require.Equal(t, before, after, "and nothing else")
	w.cluster.site = "A"
	got, err := w.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: id})
	require.NoError(t, err)
	require.Equal(t, []string{"n1"}, got.GetStatus().GetPublishedNodeIds())
	for range 2 {
		requireCode(t, codes.FailedPrecondition, w.delete(t, id))
	}
	require.NoError(t, w.unpublish(t, id, "n1"))
	require.NoError(t, w.disable(t, ofVolume(id)))
	require.NoError(t, w.delete(t, id))
	require.Empty(t, w.recorded(id).ID)
}

// S37: the last claim of a volume that is demoted at both sites is not ended by a deletion.
func TestS37_TheLastClaimIsNotEndedByADeletion(t *testing.T) {
	w := newSites(t)
	id := w.replicated(t, "v")
	require.NoError(t, w.demote(t, ofVolume(id)))
	for range 2 {
		requireCode(t, codes.FailedPrecondition, w.delete(t, id))
	}
	for range 2 {
		require.NoError(t, w.disable(t, ofVolume(id)))
	}
	require.NoError(t, w.delete(t, id))
}
