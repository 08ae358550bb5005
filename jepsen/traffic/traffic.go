// Package traffic makes calls as many clients would, on names that they share, and records a history of every
// attempt.
package traffic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
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

// workload is the state of one Run.
type workload struct {
	Profile
	history *check.History
	created sync.Map // id -> true, all that creates answered
	names   []*trackedName
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
	wait.Wait()
	res := Result{History: r.history, Unexpected: r.unexpected}
	r.created.Range(func(id, _ any) bool { res.IDs = append(res.IDs, id.(string)); return true })
	return res
}

func (r *workload) newName() *trackedName {
	r.serial++
	return &trackedName{text: fmt.Sprintf("traffic-%d-%d", r.Seed, r.serial)}
}

// pick picks a name for a call, and the id that is known of it. A name with CallsPerName calls is replaced.
func (r *workload) pick(rng *rand.Rand) (n *trackedName, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := rng.IntN(len(r.names))
	if r.names[i].calls >= r.CallsPerName {
		r.names[i] = r.newName()
	}
	n = r.names[i]
	n.calls++
	n.mu.Lock()
	defer n.mu.Unlock()
	return n, n.id
}

func (r *workload) client(ctx context.Context, client int) {
	rng := rand.New(rand.NewPCG(r.Seed, uint64(client)))
	for ctx.Err() == nil {
		n, id := r.pick(rng)
		in := r.choose(rng, n.text, id)
		out := r.history.Do(client, in, func() model.Output { return r.attempt(ctx, in) })
		if in.Kind == model.Create && out.Outcome == model.OK {
			r.created.Store(out.ID, true)
			n.mu.Lock()
			n.id = out.ID
			n.mu.Unlock()
		}
		if out.Outcome == model.Unknown {
			sleepContext(ctx, 100*time.Millisecond) // a CO waits before it repeats
		}
	}
}

func sleepContext(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// choose is the next call on a name: a create while no id is known of it.
func (r *workload) choose(rng *rand.Rand, name, id string) model.Input {
	in := model.Input{Kind: model.Create, Name: name, Size: 16 << 20}
	if rng.IntN(8) == 0 {
		in.Size *= 2
	}
	if id == "" {
		return in
	}
	node := r.Nodes[rng.IntN(len(r.Nodes))]
	switch k := rng.IntN(10); {
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
	out, err := r.call(ctx, c, in)
	out.Outcome = outcome(err)
	if out.Outcome == model.Unknown && !expected(err) {
		r.mu.Lock()
		r.unexpected = append(r.unexpected, fmt.Sprintf("%s %s: %v", in.Kind, in.Name, err))
		r.mu.Unlock()
	}
	return out
}

func (r *workload) call(ctx context.Context, c csi.ControllerClient, in model.Input) (model.Output, error) {
	var out model.Output
	var err error
	switch in.Kind {
	case model.Create:
		var res *csi.CreateVolumeResponse
		res, err = c.CreateVolume(ctx, r.Request(in.Name, in.Size))
		out.ID = res.GetVolume().GetVolumeId()
	case model.Delete:
		_, err = c.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: in.ID})
	case model.Publish:
		_, err = c.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{VolumeId: in.ID, NodeId: in.Node, VolumeCapability: r.Capability})
	case model.Unpublish:
		_, err = c.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: in.ID, NodeId: in.Node})
	case model.Get:
		var res *csi.ControllerGetVolumeResponse
		res, err = c.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: in.ID})
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

// expected reports whether an error of unknown effect is one that a CO repeats.
func expected(err error) bool {
	code := status.Code(err)
	return code == codes.Aborted || code == codes.Unavailable || code == codes.DeadlineExceeded
}
