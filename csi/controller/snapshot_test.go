package controller_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

type snapshotReq = csi.CreateSnapshotRequest

const unknownSnapshot = "hs-00000000-0000-4000-8000-000000000000"

// createSnapshot takes a snapshot.
func (w *env) createSnapshot(t testing.TB, name, source string) *csi.Snapshot {
	t.Helper()
	resp, err := w.CreateSnapshot(t.Context(), &snapshotReq{Name: name, SourceVolumeId: source})
	require.NoError(t, err)
	return resp.GetSnapshot()
}

func (w *env) snapshots(t testing.TB, change ...func(*csi.ListSnapshotsRequest)) (ids []string) {
	t.Helper()
	req := &csi.ListSnapshotsRequest{}
	for _, c := range change {
		c(req)
	}
	resp, err := w.ListSnapshots(t.Context(), req)
	require.NoError(t, err)
	for _, e := range resp.GetEntries() {
		ids = append(ids, e.GetSnapshot().GetSnapshotId())
	}
	return ids
}

// TestCreateSnapshotArguments: rows CSI-CTRL-CreateSnapshot-.
func TestCreateSnapshotArguments(t *testing.T) {
	const invalid = codes.InvalidArgument
	for name, tc := range map[string]struct {
		change func(*snapshotReq)
		want   codes.Code
	}{
		"-03: it is cut when it returns":           {func(*snapshotReq) {}, codes.OK},
		"-09: a source is required":                {func(r *snapshotReq) { r.SourceVolumeId = "" }, invalid},
		"-10: a name is required":                  {func(r *snapshotReq) { r.Name = "" }, invalid},
		"-11: a name has no control characters":    {func(r *snapshotReq) { r.Name = "a\x00" }, invalid},
		"-12: a name of 128 bytes":                 {func(r *snapshotReq) { r.Name = strings.Repeat("n", 128) }, codes.OK},
		"-12: not one of 129":                      {func(r *snapshotReq) { r.Name = strings.Repeat("n", 129) }, invalid},
		"-13: an unknown parameter":                {func(r *snapshotReq) { r.Parameters = mapOf("kind", "cow") }, invalid},
		"-13: what sidecars add":                   {func(r *snapshotReq) { r.Parameters = mapOf("csi.storage.k8s.io/volumesnapshot/name", "s") }, codes.OK},
		"-14: secrets are optional":                {func(r *snapshotReq) { r.Secrets = mapOf("a", "b") }, codes.OK},
		"-15: an unknown source":                   {func(r *snapshotReq) { r.SourceVolumeId = unknownID }, codes.NotFound},
		"-15: a source's id of another form":       {func(r *snapshotReq) { r.SourceVolumeId = "fake-vol-id" }, codes.NotFound},
		"GEN-Error-12: form comes before the rest": {func(r *snapshotReq) { r.SourceVolumeId, r.Name = unknownID, "" }, invalid},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			req := &snapshotReq{Name: "s", SourceVolumeId: w.create(t, "v")}
			tc.change(req)
			var first *csi.CreateSnapshotResponse
			for range 2 {
				resp, err := w.CreateSnapshot(t.Context(), req)
				requireCode(t, tc.want, err)
				if tc.want != codes.OK {
					require.Empty(t, w.snapshots(t), "-04")
					continue
				}
				if first == nil {
					first = resp
				}
				s := resp.GetSnapshot()
				require.True(t, proto.Equal(first, resp), "-02, -22: the same answer")
				require.True(t, s.GetReadyToUse(), "-07")
				require.Equal(t, gib, s.GetSizeBytes(), "-19")
				require.Equal(t, req.GetSourceVolumeId(), s.GetSourceVolumeId(), "-21")
				require.True(t, fsm.SnapshotID(s.GetSnapshotId()).Valid(), "-20")
				require.Positive(t, s.GetCreationTime().GetSeconds(), "-22")
				require.Equal(t, []string{s.GetSnapshotId()}, w.snapshots(t))
			}
		})
	}
}

// CSI-CTRL-CreateSnapshot-16..18, -26, -28, CSI-CTRL-ListSnapshots-03,
// CSI-EXT-GetSnapshot-03: what prevents a snapshot.
func TestCreateSnapshotFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		source, other := w.create(t, "v"), w.create(t, "other")
		w.createSnapshot(t, "s", source)
		for range 2 {
			_, err := w.CreateSnapshot(t.Context(), &snapshotReq{Name: "s", SourceVolumeId: other})
			requireCode(t, codes.AlreadyExists, err) // -16
		}
		w.host.update(func(h *fakeHost) { h.delayed = true })
		for range 2 {
			ctx, cancel := shortDeadline(t)
			_, err := w.CreateSnapshot(ctx, &snapshotReq{Name: "slow", SourceVolumeId: source})
			cancel()
			requireCode(t, codes.Aborted, err) // -17
			require.Len(t, w.snapshots(t), 1)
		}
		w.host.update(func(h *fakeHost) {
			h.delayed, h.failSnapshot = false, &fsmpb.StepFailed{Step: "cut", Error: "the pool is full", Final: true, NoSpace: true, Reason: uint32(fsm.NoCapacity)}
		})
		_, err := w.CreateSnapshot(t.Context(), &snapshotReq{Name: "full", SourceVolumeId: source})
		requireCode(t, codes.ResourceExhausted, err) // -18
		require.Contains(t, err.Error(), "the pool is full")
		w.host.update(func(h *fakeHost) { h.failSnapshot.NoSpace, h.failSnapshot.Reason = false, 0 })
		_, err = w.CreateSnapshot(t.Context(), &snapshotReq{Name: "broken", SourceVolumeId: source})
		requireCode(t, codes.Internal, err) // -26
		require.Len(t, w.snapshots(t), 1)
		w.host.update(func(h *fakeHost) { h.failSnapshot = nil })
		w.createSnapshot(t, "broken", source) // the next call with the name takes it anew
		w.createSnapshot(t, "slow", source)
		require.Len(t, w.snapshots(t), 3)
	})
}

// CSI-CTRL-DeleteSnapshot-01..07, -09, CSI-CTRL-CreateSnapshot-25.
func TestDeleteSnapshot(t *testing.T) {
	w := newEnv(t)
	source := w.create(t, "v")
	s := w.createSnapshot(t, "s", source)
	for name, tc := range map[string]struct {
		id   string
		want codes.Code
	}{
		"an id is required":        {"", codes.InvalidArgument},
		"what is unknown is gone":  {unknownSnapshot, codes.OK},
		"an id of another form":    {"reallyfakesnapshotid", codes.OK},
		"one that is there":        {s.GetSnapshotId(), codes.OK},
		"its source is another id": {source, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				_, err := w.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: tc.id, Secrets: mapOf("a", "b")})
				requireCode(t, tc.want, err)
			}
		})
	}
	require.Empty(t, w.snapshots(t))
	again := w.createSnapshot(t, "s", source)
	require.NotEqual(t, s.GetSnapshotId(), again.GetSnapshotId())
}

// S18: an idle host makes it wait; on an unreachable one the removal stays pending.
func TestDeleteSnapshotOfUnreachableHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		id := w.createSnapshot(t, "s", w.create(t, "v")).GetSnapshotId()
		w.host.update(func(h *fakeHost) { h.idle = true })
		ctx, cancel := shortDeadline(t)
		defer cancel()
		_, err := w.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: id})
		requireCode(t, codes.Aborted, err)
		require.NoError(t, ctx.Err(), "the answer came before the deadline")
		w.host.setReachable(t, false)
		_, err = w.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: id})
		require.NoError(t, err)
	})
}

// A snapshot outlives its source, and a volume is made from it afterwards.
func TestSnapshotOutlivesItsSource(t *testing.T) {
	w := newEnv(t)
	source := w.create(t, "v")
	s := w.createSnapshot(t, "s", source)
	require.NoError(t, w.delete(t, source))
	require.Equal(t, []string{s.GetSnapshotId()}, w.snapshots(t, func(r *csi.ListSnapshotsRequest) { r.SourceVolumeId = source }))
	w.create(t, "restored", withSource(fromSnapshot(s.GetSnapshotId())))
}

// CSI-EXT-GetSnapshot-01, -03, -05.
func TestGetSnapshot(t *testing.T) {
	w := newEnv(t)
	s := w.createSnapshot(t, "s", w.create(t, "v"))
	for range 2 {
		got, err := w.GetSnapshot(t.Context(), &csi.GetSnapshotRequest{SnapshotId: s.GetSnapshotId()})
		require.NoError(t, err)
		require.True(t, proto.Equal(s, got.GetSnapshot()))
		for id, want := range map[string]codes.Code{"": codes.InvalidArgument, unknownSnapshot: codes.NotFound, "fake": codes.NotFound} {
			_, err := w.GetSnapshot(t.Context(), &csi.GetSnapshotRequest{SnapshotId: id})
			requireCode(t, want, err)
		}
	}
}

// CSI-CTRL-ListSnapshots-02, -04..09, -11..13, -15.
func TestListSnapshots(t *testing.T) {
	w := newEnv(t)
	one, two := w.create(t, "one"), w.create(t, "two")
	want := map[string]bool{}
	for i := range 5 {
		want[w.createSnapshot(t, fmt.Sprint(i), one).GetSnapshotId()] = true
	}
	other := w.createSnapshot(t, "other", two).GetSnapshotId()
	for page := int32(0); page < 7; page++ {
		got, token := map[string]bool{}, ""
		for calls := 0; calls == 0 || token != ""; calls++ {
			resp, err := w.ListSnapshots(t.Context(), &csi.ListSnapshotsRequest{MaxEntries: page, StartingToken: token, SourceVolumeId: one})
			require.NoError(t, err)
			require.True(t, page == 0 || len(resp.GetEntries()) <= int(page), "-04")
			for _, e := range resp.GetEntries() {
				require.False(t, got[e.GetSnapshot().GetSnapshotId()])
				got[e.GetSnapshot().GetSnapshotId()] = true
			}
			token = resp.GetNextToken()
			require.LessOrEqual(t, len(token), 128, "-13")
		}
		require.Equal(t, want, got)
	}
	require.Len(t, w.snapshots(t), 6)
	require.Equal(t, []string{other}, w.snapshots(t, func(r *csi.ListSnapshotsRequest) { r.SnapshotId = other }), "-08")
	require.Empty(t, w.snapshots(t, func(r *csi.ListSnapshotsRequest) { r.SnapshotId = "none-exist-id" }), "-08")
	require.Empty(t, w.snapshots(t, func(r *csi.ListSnapshotsRequest) { r.SourceVolumeId = "none-exist-id" }), "-07")
	require.Empty(t, w.snapshots(t, func(r *csi.ListSnapshotsRequest) { r.SnapshotId, r.SourceVolumeId = other, one }), "-09")

	volumes, err := w.ListVolumes(t.Context(), &csi.ListVolumesRequest{MaxEntries: 1})
	require.NoError(t, err)
	for _, token := range []string{"garbage", volumes.GetNextToken(), strings.Repeat("x", 300)} {
		_, err := w.ListSnapshots(t.Context(), &csi.ListSnapshotsRequest{StartingToken: token})
		requireCode(t, codes.Aborted, err) // -12
	}
	_, err = w.ListSnapshots(t.Context(), &csi.ListSnapshotsRequest{MaxEntries: -1})
	requireCode(t, codes.InvalidArgument, err) // -06
}

// CSI-CTRL-CreateSnapshot-23: ready_to_use is true as long as a volume can be made of it.
func TestMissingSnapshot(t *testing.T) {
	w := newEnv(t)
	source := w.create(t, "v")
	snapshot, group := w.createSnapshot(t, "s", source), w.createGroup(t, "g", source)
	for _, id := range []string{snapshot.GetSnapshotId(), membersOf(group)[0]} {
		w.host.report(&fsmpb.Observation{SnapshotId: id, VolumeId: source, Fact: &fsmpb.Observation_SnapshotMissing{SnapshotMissing: &fsmpb.SnapshotMissing{Detail: "no file"}}})
		got, err := w.GetSnapshot(t.Context(), &csi.GetSnapshotRequest{SnapshotId: id})
		require.NoError(t, err)
		require.False(t, got.GetSnapshot().GetReadyToUse())
		_, err = w.CreateVolume(t.Context(), createRequest("of "+id, withSource(fromSnapshot(id))))
		requireCode(t, codes.FailedPrecondition, err)
		_, err = w.allocated(t, &csi.GetMetadataAllocatedRequest{SnapshotId: id})
		requireCode(t, codes.FailedPrecondition, err)
	}
	told, err := w.GetVolumeGroupSnapshot(t.Context(), &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: group.GetGroupSnapshotId(), SnapshotIds: membersOf(group)})
	require.NoError(t, err)
	require.False(t, told.GetGroupSnapshot().GetReadyToUse(), "CSI-GRP-CreateVolumeGroupSnapshot-18")
	_, err = w.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: snapshot.GetSnapshotId()})
	require.NoError(t, err)
}
