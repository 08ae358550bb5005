package admin

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// The states of a plan's step.
const (
	stepDone    = "done"
	stepTodo    = "todo"    // to carry the plan out does it
	stepFollows = "follows" // a consequence of what is to do
	stepWaiting = "waiting" // others do it: a host, or the orchestrator
	stepBlocked = "blocked" // it needs a decision, or something else first
)

// step is one thing that a verb comes to.
type step struct {
	action, state string
	volume        *fsm.Volume // nil: it is about the node
	node          fsm.NodeID
	detail        string
	command       *fsmpb.Command // of a step that is to do
}

// planner makes a plan on a copy of the state: a step that is to do was tried there,
// so that later steps see what earlier ones change, and what the log would refuse is
// known before anything is done.
type planner struct {
	state *fsm.State
	req   *adminpb.PlanRequest
	host  fsm.HostID // of the node, the one given or the one that has the name
	index uint64     // of the state before anything was tried
	steps []step
	// listed and unlisted are how many steps of each state are among steps, and are not.
	listed, unlisted map[string]int
	dryRuns          int    // commands
	dryRunFault      error  // the state could not take what was tried: the copy is worth nothing
	stack            string // of the fault, where it was not within the state
	// volumesOfLostHost are the volumes of a host that the plan loses, as they were before.
	volumesOfLostHost []*fsm.Volume
	// unplaceable are the volumes that cannot have a replica elsewhere.
	unplaceable map[fsm.VolumeID]bool
	attachFacts func(*fsmpb.Command)
}

// verbs make the plans.
var verbs = map[string]func(*planner) error{
	"drain": (*planner).planDrain, "undrain": (*planner).planUndrain, "evict": (*planner).planEvict, "lost": (*planner).planLost,
	"replace": (*planner).planReplace, "adopt": (*planner).planAdopt, "force-primary": (*planner).planForcePrimary,
	"remove-kept": (*planner).planRemoveKept,
}

// Plan says what a verb would come to now.
func (s *Server) Plan(ctx context.Context, req *adminpb.PlanRequest) (*adminpb.PlanResponse, error) {
	p, err := s.makePlan(ctx, req)
	if err != nil {
		return nil, err
	}
	return p.response(), nil
}

// makePlan makes the plan of a state that is not stale.
func (s *Server) makePlan(ctx context.Context, req *adminpb.PlanRequest) (*planner, error) {
	verb, known := verbs[req.GetVerb()]
	if !known {
		return nil, status.Errorf(codes.InvalidArgument, "there is no plan for %q", req.GetVerb())
	}
	release, err := s.acquirePlan(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	st, err := s.fork(ctx, false)
	if err != nil {
		return nil, err
	}
	p := &planner{state: st, req: req, attachFacts: s.AttachFacts, index: st.Cluster().Index, unplaceable: map[fsm.VolumeID]bool{}, listed: map[string]int{}, unlisted: map[string]int{}}
	n, ok := st.Node(fsm.NodeID(req.GetNode()))
	if !ok {
		return nil, s.Error(fsm.Reject(fsm.NotFound, "no node is registered as %q", req.GetNode()))
	}
	p.host = n.Host
	if req.GetHostId() != "" {
		p.host = fsm.HostID(req.GetHostId())
	}
	switch err := p.run(verb); {
	case p.dryRunFault != nil:
		s.Logger.ErrorContext(ctx, "a plan met a bug; nothing was proposed", "error", p.dryRunFault, "stack", p.stack)
		return nil, status.Error(codes.Internal, p.dryRunFault.Error())
	case err != nil:
		return nil, s.Error(err)
	}
	p.state = nil // what was tried is worth nothing from here on
	return p, nil
}

// run makes the plan. A bug ends the plan, not the controller that was asked for it (S70).
func (p *planner) run(verb func(*planner) error) error {
	defer func() {
		if cause := recover(); cause != nil {
			p.dryRunFault = fmt.Errorf("plan %s of node %s: %w: %v", p.req.GetVerb(), p.req.GetNode(), fsm.ErrFault, cause)
			p.stack = string(debug.Stack())
		}
	}()
	return verb(p)
}

// CarryOut does what is to do of the plan, in its order. What the log refuses
// meanwhile is blocked, and the others go on; what is left is for the next call. The
// request names the host that the plan showed: repeated after another host took the
// name, it does nothing to that one (S71).
func (s *Server) CarryOut(ctx context.Context, req *adminpb.PlanRequest) (*adminpb.PlanResponse, error) {
	actor, err := s.Actor(ctx)
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	p, err := s.makePlan(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case req.GetHostId() == "":
		return nil, status.Errorf(codes.InvalidArgument, "carry out %s %s: name the host that the plan shows, %s, by its host id", req.GetVerb(), req.GetNode(), p.host)
	}
	for i := range p.steps {
		if err := s.carryOut(ctx, actor, &p.steps[i], &p.index); err != nil {
			return nil, s.Error(err)
		}
	}
	return p.response(), nil
}

// carryOut does one step that is to do. The error is other than a refusal: whether the
// command was applied is not known, and the next call finds out.
func (s *Server) carryOut(ctx context.Context, actor string, t *step, index *uint64) error {
	if t.state != stepTodo || t.command == nil {
		return nil
	}
	cmd := proto.CloneOf(t.command)
	cmd.Actor = actor
	out, err := s.Cluster.Propose(ctx, cmd)
	switch refused := out.GetRejection(); {
	case refused != nil:
		t.state, t.detail = stepBlocked, refused.GetMessage()
	case err != nil:
		return err
	default:
		t.state, *index = stepDone, max(*index, out.GetIndex())
	}
	return nil
}

// dryRun tries a command on the copy; the error is what the log would say.
func (p *planner) dryRun(cmd *fsmpb.Command) error {
	if p.dryRunFault != nil {
		return p.dryRunFault
	}
	p.dryRuns++
	out, err := (&fsm.DryRun{Fork: p.state, Actor: "admin/plan", AttachFacts: p.attachFacts}).Apply(cmd)
	if err != nil {
		p.dryRunFault = fmt.Errorf("plan %s of node %s: try %s: %w", p.req.GetVerb(), p.req.GetNode(), describeCommand(cmd), err)
		return p.dryRunFault
	}
	return fsm.Err(out)
}

// describeCommand names the command and its subject.
func describeCommand(cmd *fsmpb.Command) string {
	return strings.Join(strings.Fields(prototext.MarshalOptions{}.Format(&fsmpb.Command{Body: cmd.GetBody()})), " ")
}

// add adds a step as it is, or counts it where enough of its state are listed.
func (p *planner) add(t step) {
	if t.node == "" {
		t.node = fsm.NodeID(p.req.GetNode())
	}
	if t.state != stepTodo && p.reachedListLimit(t.state) {
		return
	}
	p.listed[t.state]++
	p.steps = append(p.steps, t)
}

// addCommand adds a step that a command would do: to do where the log would take it, else
// blocked, with the reason.
func (p *planner) addCommand(t step, cmd *fsmpb.Command) bool {
	t.state, t.command = stepTodo, cmd
	err := p.dryRun(cmd)
	if err != nil {
		t.state, t.detail, t.command = stepBlocked, err.Error(), nil
	}
	p.add(t)
	return err == nil
}

// volumes are those of which the node keeps or owes something, as they are now. They
// are collected first: what is tried changes the copy.
func (p *planner) nodeVolumes() []*fsm.Volume {
	return slices.Collect(p.state.VolumesOn(fsm.NodeID(p.req.GetNode())))
}
