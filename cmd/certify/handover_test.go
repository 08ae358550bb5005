package certify

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/certify"
)

// electing is a world with two controllers, where whoever asks gets no answer now and then.
type electing struct {
	*world

	leader   string
	term     uint64
	silent   int  // how many more requests get no answer
	elects   bool // for an election, and not for a fault
	first    sync.Once
	onChange func() // before the first change
}

func (w *electing) answers() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent--; w.silent >= 0 {
		if w.elects {
			w.term++
		}
		return status.Error(codes.Unavailable, "nobody leads")
	}
	return nil
}

func (w *electing) Status(context.Context, *adminpb.StatusRequest) (*adminpb.StatusResponse, error) {
	if err := w.answers(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return &adminpb.StatusResponse{Leader: w.leader, Term: w.term}, nil
}

func (w *electing) PlanMember(_ context.Context, req *adminpb.MemberPlanRequest) (*adminpb.MemberPlanResponse, error) {
	return &adminpb.MemberPlanResponse{MemberId: req.GetMember(), Done: w.leader == req.GetMember()}, w.answers()
}

func (w *electing) ChangeMember(_ context.Context, req *adminpb.MemberPlanRequest) (*adminpb.MemberPlanResponse, error) {
	w.leader, w.term = req.GetMemberId(), w.term+1
	return &adminpb.MemberPlanResponse{Done: true}, nil
}

func (w *electing) ChangeVolume(ctx context.Context, req *adminpb.VolumeChangeRequest) (*adminpb.VolumeChangeResponse, error) {
	if w.onChange != nil {
		w.first.Do(w.onChange)
	}
	if err := w.answers(); err != nil {
		return nil, err
	}
	resp, err := w.world.ChangeVolume(ctx, req)
	if req.GetVerb() == "publish" {
		resp.PublishContext = []*adminpb.ContextPair{{Key: "generation", Value: "1"}}
	}
	return resp, err
}

func (w *electing) runner(t *testing.T) *Runner {
	r := w.world.runner(t, runA)
	client, stop := admin.NewLocalClient(w)
	t.Cleanup(stop)
	r.Client, r.each, r.names = client, []*admin.Client{client, client}, []string{"c1", "c2"}
	return r
}

// An election by itself, as on a busy machine, is no failure of the cluster: leadership is handed over all the same, and who got no answer
// asks again.
func TestAnElectionBeforeAHandoverIsNoFailure(t *testing.T) {
	for _, leader := range []string{"c1", "c2"} {
		for _, silent := range []int{0, 1, 5} {
			w := &electing{world: newWorld(), leader: leader, term: 3, silent: silent}
			r := w.runner(t)
			published, err := r.publishStaying(t.Context(), plan)
			require.NoError(t, err)
			w.silent = silent
			d := r.disturbances(&certify.Plan{Handovers: []string{"c2"}})[0]
			h, err := r.handover(t.Context(), plan, 0, d, published, 4)
			require.NoError(t, err)
			require.Empty(t, h.Problems)
			require.Equal(t, []string{"c1", "c2"}, []string{h.From, h.To})
			require.Equal(t, "c2", w.leader)
			require.Greater(t, h.TermAfter, h.TermBefore)
		}
	}
}

// Of requests at one moment those that got no answer are made again if there was an election; an Aborted is an answer.
func TestAtOnceIsAnswered(t *testing.T) {
	w := &electing{world: newWorld(), leader: "c1", term: 3, elects: true}
	for _, c := range w.atOnce(t) {
		require.Equal(t, codes.OK.String(), c.Code)
	}
	require.Len(t, w.names(), 1)
	require.False(t, unanswered(codes.Aborted.String()))
}

// Without an election requests that got no answer kept each other from one, and are judged so: each alone would be answered.
func TestRequestsThatHinderEachOtherAreNotAnswered(t *testing.T) {
	w := &electing{world: newWorld(), leader: "c1", term: 3}
	codesOf := map[string]int{}
	for _, c := range w.atOnce(t) {
		codesOf[c.Code]++
	}
	require.Equal(t, map[string]int{codes.OK.String(): 2, codes.Unavailable.String(): 4}, codesOf)
}

// atOnce asks for a volume six times at one moment, of which four get no answer.
func (w *electing) atOnce(t *testing.T) []certify.Call {
	r := w.runner(t)
	w.onChange = func() { w.silent = 4 }
	calls, err := r.atOnce(t.Context(), certify.Request{AtOnce: 6, VolumeChangeRequest: r.creation(plan, r.run.Name("at-once"), 0)})
	require.NoError(t, err)
	return calls
}
