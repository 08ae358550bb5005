package certify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/certify"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// actor is who runs all that these tests run.
const actor = "admin/ann"

// world keeps volumes in the order in which they were made.
type world struct {
	adminpb.UnimplementedAdminServer

	mu      sync.Mutex
	volumes []*adminpb.Volume
	reasons map[string]string // of the volumes' making
	index   int
	made    time.Time       // of all volumes, as the history has it
	listed  *sync.WaitGroup // nobody lists before; nil: anybody does
}

func newWorld() *world { return &world{reasons: map[string]string{}, made: time.Now()} }

func (w *world) runner(t *testing.T, run certify.Run) *Runner {
	t.Helper()
	client, stop := admin.NewLocalClient(w)
	t.Cleanup(stop)
	return &Runner{Client: client, Actor: actor, OlderThan: 5 * time.Minute, Progress: t.Logf, run: run, each: []*admin.Client{client}, names: []string{"c1"}, ids: map[string]string{}}
}

func (w *world) names() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range w.volumes {
		all = append(all, v.GetName())
	}
	return all
}

func (w *world) ChangeVolume(_ context.Context, req *adminpb.VolumeChangeRequest) (*adminpb.VolumeChangeResponse, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if req.GetVerb() == "delete" {
		w.volumes = slices.DeleteFunc(w.volumes, func(v *adminpb.Volume) bool { return v.GetId() == req.GetVolume() })
		return &adminpb.VolumeChangeResponse{Done: true, CsiCode: "OK"}, nil
	}
	i := slices.IndexFunc(w.volumes, func(v *adminpb.Volume) bool { return v.GetName() == req.GetVolume() })
	if i < 0 {
		i = len(w.volumes)
		w.index++
		v := &adminpb.Volume{Id: fmt.Sprint("hf-", w.index), Name: req.GetVolume(), MadeBy: actor, Created: fmt.Sprint("1.", w.index)}
		w.volumes, w.reasons[v.GetId()] = append(w.volumes, v), req.GetReason()
	}
	return &adminpb.VolumeChangeResponse{Done: true, CsiCode: "OK", VolumeId: w.volumes[i].GetId(), Volume: w.volumes[i]}, nil
}

func (w *world) Volumes(context.Context, *adminpb.VolumesRequest) (*adminpb.VolumesResponse, error) {
	if w.listed != nil {
		w.listed.Done()
		w.listed.Wait()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return &adminpb.VolumesResponse{Volumes: slices.Clone(w.volumes)}, nil
}

func (w *world) History(req *adminpb.HistoryRequest, stream grpc.ServerStreamingServer[adminpb.HistoryResponse]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return stream.Send(&adminpb.HistoryResponse{Body: &adminpb.HistoryResponse_Entry{Entry: &adminpb.HistoryEntry{
		Kind: "create_volume", Actor: actor, At: w.made.UTC().Format(time.RFC3339), Outcome: &fsmpb.Outcome{VolumeId: req.GetVolume()},
		Command: &fsmpb.Command{Call: &fsmpb.OperatorCall{Reason: w.reasons[req.GetVolume()]}},
	}}})
}

const (
	runA certify.Run = "aaaaaaaaaaaaaaaa"
	runB certify.Run = "bbbbbbbbbbbbbbbb"
)

var plan = certify.World{SizeBytes: 1 << 20, Hosts: []string{"n1"}}

// TestOfTwoRunsThatBeginAtOnceOneGoesOn: neither saw a volume of the other when it looked, and each has its claim when the other lists.
func TestOfTwoRunsThatBeginAtOnceOneGoesOn(t *testing.T) {
	for range 20 {
		w := newWorld()
		w.listed = &sync.WaitGroup{}
		w.listed.Add(2)
		var done sync.WaitGroup
		var errs [2]error
		for i, r := range []*Runner{w.runner(t, runA), w.runner(t, runB)} {
			done.Go(func() { errs[i] = r.claim(t.Context(), plan, nil) })
		}
		done.Wait()
		first := w.names()[0]
		require.Equal(t, first == runA.ClaimName(0), errs[0] == nil)
		require.Equal(t, first == runB.ClaimName(0), errs[1] == nil)
	}
}

// TestARefusedRunDoesNothing but to remove its claim, however often it is begun.
func TestARefusedRunDoesNothing(t *testing.T) {
	before := patience
	patience = time.Second
	t.Cleanup(func() { patience = before })
	w := newWorld()
	require.NoError(t, w.runner(t, runA).claim(t.Context(), plan, nil))
	for range 2 {
		report, err := w.runner(t, "").Run(t.Context(), &certify.Facts{}, &certify.Plan{Hosts: []string{"n1"}, SizeBytes: 1}, nil)
		require.Nil(t, report)
		require.ErrorContains(t, err, "a run of admin/ann began first, with volume "+runA.ClaimName(0))
		require.Equal(t, []string{runA.ClaimName(0)}, w.names())
	}
}

// TestAKilledRunKeepsNobodyAwayForEver: its claim is a leftover some minutes later.
func TestAKilledRunKeepsNobodyAwayForEver(t *testing.T) {
	w := newWorld()
	require.NoError(t, w.runner(t, runA).claim(t.Context(), plan, nil))
	for _, old := range []bool{false, true} {
		if old {
			w.made = time.Now().Add(-10 * time.Minute)
		}
		r := w.runner(t, runB)
		left, others, err := r.leftovers(t.Context(), w.volumes)
		require.NoError(t, err)
		require.Equal(t, old, len(left) == 1)
		require.Equal(t, old, len(others) == 0)
		require.Equal(t, old, r.claim(t.Context(), plan, left) == nil)
		r.ends = !old
		require.NoError(t, r.removeOwn(t.Context()))
	}
	require.Equal(t, []string{runA.ClaimName(0), runB.ClaimName(0)}, w.names())
}

// TestARunThatGoesOnHasAYoungVolume until it ends.
func TestARunThatGoesOnHasAYoungVolume(t *testing.T) {
	w := newWorld()
	r := w.runner(t, runA)
	require.NoError(t, r.claim(t.Context(), plan, nil))
	for n := range 3 {
		require.NoError(t, r.renewClaim(t.Context(), plan))
		require.NoError(t, r.removeOwn(t.Context()))
		require.Equal(t, []string{runA.ClaimName(0), runA.ClaimName(n + 1)}, w.names())
	}
	for range 2 {
		require.NoError(t, r.removeAtEnd(t.Context(), plan))
		require.Empty(t, w.names())
	}
}

// slowPods take long to remove anything.
type slowPods struct {
	*fakePods

	t *testing.T
}

func (p *slowPods) RemoveLeft(context.Context) error              { p.awaitYoung(); return errors.New("enough") }
func (p *slowPods) Remove(_ context.Context, _ certify.Run) error { p.awaitYoung(); return nil }

// awaitYoung waits until the run made a claim beside its first.
func (p *slowPods) awaitYoung() {
	old := p.names()
	require.Eventually(p.t, func() bool {
		return slices.ContainsFunc(p.names(), func(name string) bool { return !slices.Contains(old, name) })
	}, 5*time.Second, 10*time.Millisecond, "no volume of the run is young")
}

// TestWhatTakesLongHasAYoungClaim: another run takes one without a young volume for killed, and removes what it made.
func TestWhatTakesLongHasAYoungClaim(t *testing.T) {
	before := claimEvery
	claimEvery = 20 * time.Millisecond
	t.Cleanup(func() { claimEvery = before })
	w := newWorld()
	r := w.runner(t, "")
	r.Pods = &slowPods{&fakePods{world: w}, t}
	report, err := r.Run(t.Context(), &certify.Facts{}, &certify.Plan{Hosts: []string{"n1"}, SizeBytes: 1}, nil)
	require.Nil(t, report)
	require.ErrorContains(t, err, "enough")
	require.Empty(t, w.names())
}
