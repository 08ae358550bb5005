// Package traffic makes calls as many clients would, on names that they share, and records a history of every
// attempt.
package traffic

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/check"
	"github.com/holdfast-storage/holdfast/jepsen/model"
)

// Profile says who calls what, and where.
type Profile struct {
	Clients int
	Names   int // that are in use at a time: few, so that clients meet
	Nodes   []string
	// Controller is the endpoint for one attempt; it is called for each.
	Controller func() (csi.ControllerClient, error)
	Request    func(name string, size int64) *csi.CreateVolumeRequest
	Capability *csi.VolumeCapability
	// Size is that of a new volume, in bytes; 16 MiB when zero.
	Size int64
	// Expands has volumes grow.
	Expands bool
	// Copies has further clients make copies of volumes; nil: none.
	Copies *Copies
	// Unknown are codes, beside those that a CO repeats, that say nothing of the effect here and are no surprise.
	Unknown []codes.Code
	// CallsPerName is how many calls are made on a name before a new one takes its
	// place: calls of unknown outcome make long histories hard to judge.
	CallsPerName int
	Timeout      time.Duration // of one attempt
	Seed         uint64
}

// trackedName is one volume's name with what clients learned of it.
type trackedName struct {
	mu    sync.Mutex
	text  string
	calls int
	id    string // the last that a create answered
}

// current is the id that is known of the name, empty when none is.
func (n *trackedName) current() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.id
}

// made notes what a create answered.
func (n *trackedName) made(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.id = id
}

// workload is the state of one Run.
type workload struct {
	Profile
	history *check.History
	created sync.Map // id -> true, all that creates answered
	names   []*trackedName
	copies  []*trackedName
	serial  int
	mu      sync.Mutex

	unexpected []string
}

// Result is what a run of traffic leaves.
type Result struct {
	History *check.History
	IDs     []string // of every volume that a create answered
	// Unexpected are errors with codes that no CO expects of these calls.
	Unexpected []string
}

// Run makes calls until ctx ends.
func Run(ctx context.Context, profile Profile) Result {
	r := &workload{Profile: profile, history: check.NewHistory()}
	for range profile.Names {
		r.names = append(r.names, r.newName())
	}
	var wait sync.WaitGroup
	for client := range profile.Clients {
		wait.Go(func() { r.client(ctx, client) })
	}
	if profile.Copies != nil {
		r.recordSources()
		for client := range profile.Copies.Clients {
			wait.Go(func() { r.copier(ctx, profile.Clients+client) })
		}
	}
	wait.Wait()
	res := Result{History: r.history, Unexpected: r.unexpected}
	r.created.Range(func(id, _ any) bool { res.IDs = append(res.IDs, id.(string)); return true })
	return res
}

func (r *workload) newName() *trackedName {
	r.serial++
	return &trackedName{text: fmt.Sprintf("traffic-%d-%d", r.Seed, r.serial)}
}

// pick picks a name for a call. A name with CallsPerName calls is replaced, and retired.
func (r *workload) pick(rng *rand.Rand) (n, retired *trackedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := rng.IntN(len(r.names))
	if r.names[i].calls >= r.CallsPerName {
		retired = r.names[i]
		r.names[i] = r.newName()
	}
	n = r.names[i]
	n.calls++
	return n, retired
}

// retire gives back the room of a name that is not used any more, as well as one attempt can.
func (r *workload) retire(ctx context.Context, client int, n *trackedName) {
	if n == nil || n.current() == "" {
		return
	}
	for _, kind := range []model.Kind{model.Unpublish, model.Delete} {
		r.do(ctx, client, model.Input{Kind: kind, Name: n.text, ID: n.current()}, n)
	}
}

func (r *workload) client(ctx context.Context, client int) {
	rng := rand.New(rand.NewPCG(r.Seed, uint64(client)))
	for ctx.Err() == nil {
		n, retired := r.pick(rng)
		r.retire(ctx, client, retired)
		r.do(ctx, client, r.choose(rng, n.text, n.current()), n)
	}
}

// do makes one call of a client on a name, and pauses after one of unknown outcome, as a CO does before it repeats it.
func (r *workload) do(ctx context.Context, client int, in model.Input, n *trackedName) model.Output {
	out := r.history.Do(client, in, func() model.Output { return r.attempt(ctx, in) })
	if in.Kind == model.Create && out.Outcome == model.OK {
		r.created.Store(out.ID, true)
		n.made(out.ID)
	}
	if out.Outcome == model.Unknown {
		sleepContext(ctx, 100*time.Millisecond)
	}
	return out
}

func sleepContext(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// choose is the next call on a name: a create while no id is known of it.
func (r *workload) choose(rng *rand.Rand, name, id string) model.Input {
	in := model.Input{Kind: model.Create, Name: name, Size: cmp.Or(r.Size, 16<<20)}
	if rng.IntN(8) == 0 {
		in.Size *= 2
	}
	if id == "" {
		return in
	}
	node := r.Nodes[rng.IntN(len(r.Nodes))]
	switch k := rng.IntN(11); {
	case k == 10 && r.Expands:
		return model.Input{Kind: model.Expand, Name: name, ID: id, Size: in.Size * int64(1+rng.IntN(3))}
	case k < 2:
		return in
	case k < 4:
		return model.Input{Kind: model.Delete, Name: name, ID: id}
	case k < 6:
		return model.Input{Kind: model.Publish, Name: name, ID: id, Node: node}
	case k < 8:
		return model.Input{Kind: model.Unpublish, Name: name, ID: id, Node: node}
	default:
		return model.Input{Kind: model.Get, Name: name, ID: id}
	}
}

// attempt makes one call, once.
func (r *workload) attempt(ctx context.Context, in model.Input) model.Output {
	c, err := r.Controller()
	if err != nil {
		return model.Output{Outcome: model.Unknown}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Timeout)
	defer cancel()
	var trailer metadata.MD
	out, err := r.call(ctx, c, in, grpc.Trailer(&trailer))
	out.Outcome = outcome(err)
	out.Index, out.FromState = indexOf(trailer)
	if out.Outcome == model.Unknown && !r.expected(err) {
		r.mu.Lock()
		r.unexpected = append(r.unexpected, fmt.Sprintf("%s %s: %v", in.Kind, in.Name, err))
		r.mu.Unlock()
	}
	return out
}

// What the product names the index of the entry that decided a change by, and that of a state that was read.
const (
	indexTrailer = "holdfast-log-index"
	readTrailer  = "holdfast-read-index"
)

// indexOf is the index of an answer: of its entry, or of what was read where it has none.
func indexOf(trailer metadata.MD) (index uint64, fromState bool) {
	if index = last(trailer.Get(indexTrailer)); index != 0 {
		return index, false
	}
	return last(trailer.Get(readTrailer)), true
}

func last(values []string) uint64 {
	if len(values) == 0 {
		return 0
	}
	index, _ := strconv.ParseUint(values[len(values)-1], 10, 64) // zero is none
	return index
}

func (r *workload) call(ctx context.Context, c csi.ControllerClient, in model.Input, opts ...grpc.CallOption) (model.Output, error) {
	if copied(in.Name) {
		return r.Copies.call(ctx, c, in, opts...)
	}
	var out model.Output
	var err error
	switch in.Kind {
	case model.Create:
		var res *csi.CreateVolumeResponse
		res, err = c.CreateVolume(ctx, r.Request(in.Name, in.Size), opts...)
		out.ID = res.GetVolume().GetVolumeId()
	case model.Delete:
		_, err = c.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: in.ID}, opts...)
	case model.Publish:
		_, err = c.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{VolumeId: in.ID, NodeId: in.Node, VolumeCapability: r.Capability}, opts...)
	case model.Unpublish:
		_, err = c.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: in.ID, NodeId: in.Node}, opts...)
	case model.Expand:
		var res *csi.ControllerExpandVolumeResponse
		res, err = c.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{VolumeId: in.ID,
			CapacityRange: &csi.CapacityRange{RequiredBytes: in.Size}, VolumeCapability: r.Capability}, opts...)
		out.Size = res.GetCapacityBytes()
	case model.Get:
		var res *csi.ControllerGetVolumeResponse
		res, err = c.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: in.ID}, opts...)
		if nodes := res.GetStatus().GetPublishedNodeIds(); len(nodes) > 0 {
			out.Node = nodes[0]
		}
	}
	return out, err
}

// outcome tells what an error means for the call's effect. For every code not listed the effect is unknown.
func outcome(err error) model.Outcome {
	switch status.Code(err) {
	case codes.OK:
		return model.OK
	case codes.NotFound:
		return model.NotFound
	case codes.AlreadyExists:
		return model.Exists
	case codes.FailedPrecondition:
		return model.Precondition
	default:
		return model.Unknown
	}
}

// expected reports whether an error of unknown effect is one that a CO repeats, or that the profile names.
func (r *workload) expected(err error) bool {
	code := status.Code(err)
	return slices.Contains(r.Unknown, code) || code == codes.Aborted || code == codes.Unavailable || code == codes.DeadlineExceeded
}
