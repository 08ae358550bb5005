package admin

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

var ctx = context.Background()

func TestStatus(t *testing.T) {
	three := []Member{
		{Name: "c2", MemberID: "b", Role: "follower", Term: 3, Applied: 7, Hash: []byte{1}},
		{Name: "c1", MemberID: "a", Role: "leader", Term: 3, Applied: 8, Hash: []byte{1}},
		{Name: "c3", MemberID: "c", Err: errors.New("gone")},
	}
	for name, tc := range map[string]struct {
		members []Member
		quorum  error
		leader  string
		term    uint64
	}{
		"it names the leader and the term":              {members: three, leader: "c1", term: 3},
		"without a quorum it names no leader":           {members: three, quorum: errNoQuorum, term: 3},
		"a leader of an older term is none":             {members: []Member{{Name: "c1", Role: "leader", Term: 2}, {Name: "c2", Term: 3, Role: "candidate"}}, term: 3},
		"it answers what it knows when nobody is there": {quorum: errNoQuorum},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, "n1")
			w.members, w.quorum = tc.members, tc.quorum
			for range 2 {
				resp, err := w.server.Status(ctx, &adminpb.StatusRequest{})
				require.NoError(t, err)
				require.Equal(t, tc.leader, resp.GetLeader())
				require.Equal(t, tc.term, resp.GetTerm())
				require.Equal(t, w.index, resp.GetIndex())
				require.Equal(t, "cluster-1", resp.GetClusterId())
				require.Len(t, resp.GetMembers(), len(tc.members))
			}
		})
	}
}

func TestStatusAsksEveryMemberForTheHashAtTheCommitIndexItReadFirst(t *testing.T) {
	w := newEnv(t, "n1")
	w.members = []Member{{Name: "c2", Term: 1}, {Name: "c1", Term: 1, Role: "leader"}, {Name: "c3", Err: errors.New("gone")}}
	resp, err := w.server.Status(ctx, &adminpb.StatusRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"c1", "c2", "c3"}, mapSlice(resp.GetMembers(), (*adminpb.Member).GetId))
	require.Equal(t, []uint64{w.index, w.index, 0}, mapSlice(resp.GetMembers(), (*adminpb.Member).GetHashIndex))
	require.Equal(t, []bool{true, true, false}, mapSlice(resp.GetMembers(), (*adminpb.Member).GetReachable))
}

func TestVolumesComeInPages(t *testing.T) {
	w := newEnv(t, "n1")
	for n := range 5 {
		w.create(n, true)
	}
	var ids []string
	req := &adminpb.VolumesRequest{PageSize: 2}
	for pages := 1; ; pages++ {
		resp, err := w.server.Volumes(ctx, req)
		require.NoError(t, err)
		require.Equal(t, w.index, resp.GetIndex())
		ids = append(ids, mapSlice(resp.GetVolumes(), (*adminpb.Volume).GetId)...)
		if req.After = resp.GetNext(); req.GetAfter() == "" {
			require.Equal(t, 3, pages)
			break
		}
	}
	require.Len(t, ids, 5)
	require.IsIncreasing(t, ids)
}

func TestReadsAreFilteredByObject(t *testing.T) {
	w := newEnv(t, "n1", "n2")
	id := w.create(1, false)
	operation := w.log[len(w.log)-1].Index
	for name, tc := range map[string]struct {
		call func() (int, error)
		want int
		code codes.Code
	}{
		"a volume by id":     {call: func() (int, error) { return volumes(w, &adminpb.VolumesRequest{Volume: string(id)}) }, want: 1},
		"a volume by name":   {call: func() (int, error) { return volumes(w, &adminpb.VolumesRequest{Volume: "pvc-1"}) }, want: 1},
		"no such volume":     {call: func() (int, error) { return volumes(w, &adminpb.VolumesRequest{Volume: "x"}) }, code: codes.NotFound},
		"volumes of a node":  {call: func() (int, error) { return volumes(w, &adminpb.VolumesRequest{Node: "n1"}) }, want: 1},
		"a node without any": {call: func() (int, error) { return volumes(w, &adminpb.VolumesRequest{Node: "n2"}) }},
		"an operation":       {call: func() (int, error) { return operations(w, operation) }, want: 1},
		"all operations":     {call: func() (int, error) { return operations(w, 0) }, want: 1},
		"no such operation":  {call: func() (int, error) { return operations(w, 999) }, code: codes.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				got, err := tc.call()
				require.Equal(t, tc.code, status.Code(err))
				require.Equal(t, tc.want, got)
			}
		})
	}
}

func volumes(w *env, req *adminpb.VolumesRequest) (int, error) {
	resp, err := w.server.Volumes(ctx, req)
	return len(resp.GetVolumes()), err
}

func operations(w *env, id uint64) (int, error) {
	resp, err := w.server.Operations(ctx, &adminpb.OperationsRequest{Id: id})
	return len(resp.GetOperations()), err
}

func TestReadsWithoutAQuorumAnswerOnlyWhenStaleIsAccepted(t *testing.T) {
	w := newEnv(t, "n1")
	w.quorum = errNoQuorum
	for _, stale := range []bool{false, true} {
		want := codes.Unavailable
		if stale {
			want = codes.OK
		}
		_, volumes := w.server.Volumes(ctx, &adminpb.VolumesRequest{Stale: stale})
		_, nodes := w.server.Nodes(ctx, &adminpb.NodesRequest{Stale: stale})
		_, operations := w.server.Operations(ctx, &adminpb.OperationsRequest{Stale: stale})
		for _, err := range []error{volumes, nodes, operations} {
			require.Equal(t, want, status.Code(err))
		}
	}
}

func TestChangesAreProposedInTheCallersNameForTheNamedHost(t *testing.T) {
	w := newEnv(t, "n1")
	resp, err := w.server.AdoptNode(ctx, &adminpb.AdoptNodeRequest{Node: "n1", HostId: "host-n1"})
	require.NoError(t, err)
	require.Equal(t, w.index, resp.GetIndex())
	last := w.log[len(w.log)-1].Command
	require.Equal(t, "admin/alice", last.GetActor())
	require.Equal(t, "host-n1", last.GetAdoptNode().GetHostId())
}

func TestChangesThatAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		call func(w *env) error
		code codes.Code
	}{
		"S71: adopting a node without its host": {code: codes.InvalidArgument, call: func(w *env) error {
			_, err := w.server.AdoptNode(ctx, &adminpb.AdoptNodeRequest{Node: "n1"})
			return err
		}},
		"adopting a node that is not known": {code: codes.NotFound, call: func(w *env) error {
			_, err := w.server.AdoptNode(ctx, &adminpb.AdoptNodeRequest{Node: "n9"})
			return err
		}},
		"cancelling an operation that is not known": {code: codes.NotFound, call: func(w *env) error {
			_, err := w.server.CancelOperation(ctx, &adminpb.OperationRequest{Id: 99})
			return err
		}},
		"retrying an operation that is not known": {code: codes.NotFound, call: func(w *env) error {
			_, err := w.server.RetryOperation(ctx, &adminpb.OperationRequest{Id: 99})
			return err
		}},
		"anything without a quorum": {code: codes.Unavailable, call: func(w *env) error {
			w.quorum = errNoQuorum
			_, err := w.server.AdoptNode(ctx, &adminpb.AdoptNodeRequest{Node: "n1"})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, "n1")
			for range 2 {
				require.Equal(t, tc.code, status.Code(tc.call(w)))
			}
		})
	}
}

// collector is the server side of a stream; it collects what is sent.
type collector[T any] struct {
	grpc.ServerStream
	got []*T
}

func (c *collector[T]) Send(m *T) error          { c.got = append(c.got, m); return nil }
func (c *collector[T]) Context() context.Context { return ctx }

func TestHistory(t *testing.T) {
	w := newEnv(t, "n1", "n2") // 1 bootstrap, 2 and 3 register
	first := w.create(1, true) // 4 create, 5 report
	w.delete(first)            // 6
	w.observe(&fsmpb.Observation{VolumeId: string(first), Fact: &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}})
	w.create(2, false) // 8
	for name, tc := range map[string]struct {
		req  *adminpb.HistoryRequest
		want []uint64
	}{
		"everything":                             {req: &adminpb.HistoryRequest{}, want: []uint64{1, 2, 3, 4, 5, 6, 7, 8}},
		"an index range":                         {req: &adminpb.HistoryRequest{From: 2, To: 4}, want: []uint64{2, 3, 4}},
		"a volume by id, also when it is gone":   {req: &adminpb.HistoryRequest{Volume: string(first)}, want: []uint64{4, 5, 6, 7}},
		"a volume by name, also when it is gone": {req: &adminpb.HistoryRequest{Volume: "pvc-1"}, want: []uint64{4, 5, 6, 7}},
		"a node":                                 {req: &adminpb.HistoryRequest{Node: "n2"}, want: []uint64{3}},
		"a volume and a node":                    {req: &adminpb.HistoryRequest{Volume: "pvc-1", Node: "n1"}, want: []uint64{5, 7}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				out := &collector[adminpb.HistoryResponse]{}
				require.NoError(t, w.server.History(tc.req, out))
				require.EqualValues(t, 1, out.got[0].GetHeader().GetKnownFrom())
				require.Equal(t, w.index, out.got[0].GetHeader().GetIndex())
				require.Equal(t, tc.want, mapSlice(out.got[1:], func(m *adminpb.HistoryResponse) uint64 { return m.GetEntry().GetIndex() }))
			}
		})
	}
}

func TestHistoryShowsGapsWhateverIsAskedFor(t *testing.T) {
	w := newEnv(t, "n1")
	w.log = append(w.log, Entry{Index: 3})
	out := &collector[adminpb.HistoryResponse]{}
	require.NoError(t, w.server.History(&adminpb.HistoryRequest{Volume: "pvc-1"}, out))
	require.Len(t, out.got, 2)
	require.True(t, out.got[1].GetEntry().GetGap())
}

func TestStateIsOfOneIndex(t *testing.T) {
	w := newEnv(t, "n1", "n2")
	w.create(1, true)
	out := &collector[adminpb.StateResponse]{}
	require.NoError(t, w.server.State(&adminpb.StateRequest{}, out))
	require.Len(t, out.got, 4)
	require.Equal(t, w.index, out.got[0].GetHeader().GetIndex())
	require.Len(t, out.got[0].GetHeader().GetHash(), 32)
	require.Equal(t, "n2", out.got[2].GetNode().GetId())
	require.Equal(t, "pvc-1", out.got[3].GetVolume().GetName())
}
