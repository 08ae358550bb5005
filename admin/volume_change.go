package admin

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/fsm"
)

// answerMargin is how long before the caller's deadline a change stops waiting for hosts: the answer must still arrive.
const answerMargin = 500 * time.Millisecond

// volumeChange is one change of a volume, as an orchestrator would ask for it by CSI.
type volumeChange struct {
	server  *Server
	req     *adminpb.VolumeChangeRequest
	state   *fsm.State  // a copy that no command is tried on
	volume  *fsm.Volume // nil: there is none
	site    string
	step    step
	call    func(context.Context, csi.ControllerServer) error
	request proto.Message     // that the call is of
	context map[string]string // a publication's
	csiCode string            // of CSI's answer to the call; empty: it was not made

	byOperator bool // the caller has the role operator, and is no admin
}

// PlanVolume returns what the change would do now; it changes nothing.
func (s *Server) PlanVolume(ctx context.Context, req *adminpb.VolumeChangeRequest) (*adminpb.VolumeChangeResponse, error) {
	x, err := s.planVolume(ctx, req)
	if err != nil {
		return nil, err
	}
	return x.response(), nil
}

// ChangeVolume carries it out and waits for the hosts. A rejection makes the step blocked. A deletion names the volume
// by its id: repeated later it meets no other one that took the name.
func (s *Server) ChangeVolume(ctx context.Context, req *adminpb.VolumeChangeRequest) (*adminpb.VolumeChangeResponse, error) {
	if req.GetVerb() == verbDelete && !fsm.VolumeID(req.GetVolume()).Valid() {
		return nil, status.Errorf(codes.InvalidArgument, "delete volume %s: name it by the id that the plan shows", req.GetVolume())
	}
	c, err := s.newKeptCall(ctx, req.GetReason())
	if err != nil {
		return nil, err
	}
	x, err := s.planVolume(ctx, req)
	if err != nil || x.step.state == stepBlocked || x.call == nil {
		return x.responseOr(err)
	}
	plan := x.response()
	c.follows(plan.GetSummary(), plan.GetSteps())
	if err := x.carryOut(ctx, s.VolumeCalls.Controller(calledCluster{s.VolumeCalls.Cluster(c.actor, x.site), c})); err != nil {
		return nil, err
	}
	if err := x.read(ctx); err != nil {
		return nil, err
	}
	if req.GetVerb() == verbUnpublish && x.byOperator && x.step.state == stepDone { // an orchestrator published meanwhile
		x.leavesPublication()
	}
	return x.response(), nil
}

// planVolume has the CSI service make the call of a fork.
func (s *Server) planVolume(ctx context.Context, req *adminpb.VolumeChangeRequest) (*volumeChange, error) {
	if s.VolumeCalls == nil {
		return nil, status.Error(codes.Unimplemented, "this controller changes no volumes for operators")
	}
	release, err := s.acquirePlan(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	x := &volumeChange{server: s, req: proto.CloneOf(req), step: step{action: req.GetVerb(), node: fsm.NodeID(req.GetNode())}, byOperator: s.isOperator(ctx)}
	if err := x.read(ctx); err != nil {
		return nil, err
	}
	if err := x.prepare(); err != nil {
		return nil, s.Error(err)
	}
	if x.step.state != "" {
		return x, nil
	}
	if err := s.VolumeCalls.Check(x.request); err != nil {
		return nil, s.Error(err)
	}
	return x, x.try()
}

// read takes a copy of the state, and finds the volume in it. One that was found once is looked for by its id.
func (x *volumeChange) read(ctx context.Context) (err error) {
	if x.state, err = x.server.fork(ctx, false); err != nil {
		return err
	}
	named := x.req.GetVolume()
	if x.volume != nil {
		named = string(x.volume.ID)
	}
	x.volume = findVolume(x.state, named)
	return nil
}

// try makes the call of a fork. What it would have waited for follows.
func (x *volumeChange) try() error {
	ended, end := context.WithCancel(context.Background())
	end() // nobody waits for hosts
	fork := &forkCluster{site: x.site, dryRun: fsm.DryRun{Fork: x.state.Fork(), Actor: "admin/plan", AttachFacts: x.server.AttachFacts}}
	err := x.call(ended, x.server.VolumeCalls.Controller(fork))
	x.csiCode = status.Code(err).String()
	switch {
	case fork.fault != nil:
		x.server.Logger.Error("a plan met a bug; nothing was proposed", "error", fork.fault)
		return status.Error(codes.Internal, fork.fault.Error())
	case fork.refused != nil && fork.refused.Reason == fsm.Busy:
		x.step.state, x.step.detail = stepWaiting, fork.refused.Message
	case fork.refused != nil:
		x.step.state, x.step.detail = stepBlocked, fork.refused.Message
	case status.Code(err) == codes.OK, status.Code(err) == codes.Aborted:
		x.step.state = stepTodo
		switch {
		case x.isDone() && x.volume == nil:
			x.step.state, x.call = stepDone, nil // nothing is proposed about what is gone
		case x.isDone():
			x.step.state = stepDone
		default:
			x.context = nil // of an epoch that the log does not have
		}
	default: // the request itself
		return err
	}
	return nil
}

// carryOut makes the call in the operator's name. UNAVAILABLE and ABORTED are errors: the caller asks again.
func (x *volumeChange) carryOut(ctx context.Context, controller csi.ControllerServer) error {
	if deadline, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-min(answerMargin, time.Until(deadline)/10)))
		defer cancel()
	}
	err := x.call(ctx, controller)
	x.csiCode = status.Code(err).String()
	switch status.Code(err) {
	case codes.OK:
		x.step.state = stepDone
	case codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.OutOfRange, codes.ResourceExhausted, codes.PermissionDenied:
		x.step.state, x.step.detail = stepBlocked, status.Convert(err).Message()
	default:
		return err
	}
	return nil
}

func (x *volumeChange) responseOr(err error) (*adminpb.VolumeChangeResponse, error) {
	if err != nil {
		return nil, err
	}
	return x.response(), nil
}

func (x *volumeChange) response() *adminpb.VolumeChangeResponse {
	x.step.volume = x.volume
	out := &adminpb.VolumeChangeResponse{Index: x.state.Cluster().Index, Verb: x.req.GetVerb(), Name: x.req.GetVolume(),
		Steps: []*adminpb.PlanStep{x.step.view()}, Done: x.step.state == stepDone, PublishContext: contextPairs(x.context), CsiCode: x.csiCode}
	if v := x.volume; v != nil {
		out.VolumeId, out.Name, out.Volume = string(v.ID), v.Name, volumeView(x.state, v)
	}
	out.Summary = fmt.Sprintf("%s volume %s: %s", out.GetVerb(), x.req.GetVolume(), x.step.state)
	return out
}

// contextPairs are in order of the keys.
func contextPairs(context map[string]string) (pairs []*adminpb.ContextPair) {
	for _, key := range slices.Sorted(maps.Keys(context)) {
		pairs = append(pairs, &adminpb.ContextPair{Key: key, Value: context[key]})
	}
	return pairs
}

func volumeChangeTable(w io.Writer, a *adminpb.VolumeChangeResponse) {
	row(w, "STATE", "ACTION", "VOLUME", "NAME", "NODE", "DETAIL")
	for _, s := range a.GetSteps() {
		row(w, s.GetState(), s.GetAction(), a.GetVolumeId(), a.GetName(), s.GetNode(), s.GetDetail())
	}
	fmt.Fprintf(w, "%s\n", listing.OneLine(a.GetSummary()))
}
