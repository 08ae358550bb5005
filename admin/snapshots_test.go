package admin

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

func TestSnapshotsAndGroupsAreListed(t *testing.T) {
	w := newEnv(t, "n1")
	first, second := w.create(1, true), w.create(2, true)
	w.snapshot(first, true)
	w.group(first, second)
	for name, tc := range map[string]struct {
		req  *adminpb.SnapshotsRequest
		want int
		code codes.Code
	}{
		"all of them":         {req: &adminpb.SnapshotsRequest{}, want: 3},
		"of a volume":         {req: &adminpb.SnapshotsRequest{Source: string(second)}, want: 1},
		"of a node":           {req: &adminpb.SnapshotsRequest{Node: "n1"}, want: 3},
		"of a node without":   {req: &adminpb.SnapshotsRequest{Node: "n2"}},
		"by id":               {req: &adminpb.SnapshotsRequest{Snapshot: snapshotOne}, want: 1},
		"by name":             {req: &adminpb.SnapshotsRequest{Snapshot: "snap-1"}, want: 1},
		"one that is unknown": {req: &adminpb.SnapshotsRequest{Snapshot: "x"}, code: codes.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				resp, err := w.server.Snapshots(ctx, tc.req)
				require.Equal(t, tc.code, status.Code(err))
				require.Len(t, resp.GetSnapshots(), tc.want)
			}
		})
	}
	one, err := w.server.Snapshots(ctx, &adminpb.SnapshotsRequest{Snapshot: "snap-1"})
	require.NoError(t, err)
	require.Equal(t, "ready", one.GetSnapshots()[0].GetPhase())
	require.Equal(t, string(first), one.GetSnapshots()[0].GetSource())
	for _, req := range []*adminpb.GroupSnapshotsRequest{{}, {Group: "group-1"}} {
		groups, err := w.server.GroupSnapshots(ctx, req)
		require.NoError(t, err)
		require.Len(t, groups.GetGroups(), 1)
		require.Equal(t, "freezing", groups.GetGroups()[0].GetPhase())
		require.Len(t, groups.GetGroups()[0].GetMembers(), 2)
	}
	_, err = w.server.GroupSnapshots(ctx, &adminpb.GroupSnapshotsRequest{Group: "x"})
	require.Equal(t, codes.NotFound, status.Code(err))
}

func TestSnapshotsComeInPages(t *testing.T) {
	w := newEnv(t, "n1")
	var volumes []fsm.VolumeID
	for n := range 5 {
		volumes = append(volumes, w.create(n, true))
	}
	w.group(volumes...)
	var ids []string
	for req, pages := (&adminpb.SnapshotsRequest{PageSize: 2}), 1; ; pages++ {
		resp, err := w.server.Snapshots(ctx, req)
		require.NoError(t, err)
		ids = append(ids, mapSlice(resp.GetSnapshots(), (*adminpb.Snapshot).GetId)...)
		if req.After = resp.GetNext(); req.GetAfter() == "" {
			require.Equal(t, 3, pages)
			break
		}
	}
	require.Len(t, ids, 5)
	require.IsIncreasing(t, ids)
}

func TestOperationsOfSnapshotsAndGroupsAreShownAndCancelled(t *testing.T) {
	w := newEnv(t, "n1")
	first, second := w.create(1, true), w.create(2, true)
	w.snapshot(first, false)
	w.group(second)
	all, err := w.server.Operations(ctx, &adminpb.OperationsRequest{})
	require.NoError(t, err)
	require.Len(t, all.GetOperations(), 2)
	cut, group := all.GetOperations()[0], all.GetOperations()[1]
	require.Equal(t, "snapshot", cut.GetKind())
	require.Equal(t, snapshotOne, cut.GetSnapshot())
	require.Equal(t, "snap-1", cut.GetName())
	require.Equal(t, "group-1", group.GetName())
	require.Equal(t, []string{"n1"}, group.GetNodes())

	id := uint64(6) // 1 bootstrap, 2 register, 3 to 6 two volumes, 7 the snapshot
	_, err = w.server.CancelOperation(ctx, &adminpb.OperationRequest{Id: id + 1})
	require.NoError(t, err)
	one, err := w.server.Operations(ctx, &adminpb.OperationsRequest{Id: id + 1})
	require.NoError(t, err)
	require.Equal(t, "delete", one.GetOperations()[0].GetKind(), "S74: what was cut of it is removed")
	require.Equal(t, "cancelled by an operator", one.GetOperations()[0].GetLastError())
	_, err = w.server.RetryOperation(ctx, &adminpb.OperationRequest{Id: id + 1})
	require.NoError(t, err)
}

func TestHistoryOfASnapshotAndOfAGroup(t *testing.T) {
	w := newEnv(t, "n1")                                                // 1, 2
	first, second := w.create(1, true), w.create(2, true)               // 3 to 6
	w.deleteSnapshot(w.snapshot(first, true))                           // 7, 8, 9
	group := w.group(first, second)                                     // 10
	member := fsm.SnapshotID("hs-00000000-0000-4000-8000-100000000001") // of the second
	for name, tc := range map[string]struct {
		req  *adminpb.HistoryRequest
		want []uint64
	}{
		"a snapshot by id":        {req: &adminpb.HistoryRequest{Snapshot: snapshotOne}, want: []uint64{7, 8, 9}},
		"a snapshot by name":      {req: &adminpb.HistoryRequest{Snapshot: "snap-1"}, want: []uint64{7, 8, 9}},
		"a group by id":           {req: &adminpb.HistoryRequest{Snapshot: string(group)}, want: []uint64{10}},
		"a group by name":         {req: &adminpb.HistoryRequest{Snapshot: "group-1"}, want: []uint64{10}},
		"a member":                {req: &adminpb.HistoryRequest{Snapshot: string(member)}, want: []uint64{10}},
		"a volume with its cuts":  {req: &adminpb.HistoryRequest{Volume: string(second)}, want: []uint64{5, 6, 10}},
		"a snapshot of no volume": {req: &adminpb.HistoryRequest{Snapshot: snapshotOne, Volume: string(second)}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				out := &collector[adminpb.HistoryResponse]{}
				require.NoError(t, w.server.History(tc.req, out))
				require.ElementsMatch(t, tc.want, mapSlice(out.got[1:], func(m *adminpb.HistoryResponse) uint64 { return m.GetEntry().GetIndex() }))
			}
		})
	}
}
