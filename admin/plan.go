package admin

import (
	"context"
	"fmt"
	"maps"
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
	stepTodo    = "todo"    // done when the plan is carried out
	stepFollows = "follows" // a consequence of steps that are to do
	stepWaiting = "waiting" // depends on a host or on the orchestrator
	stepBlocked = "blocked" // needs an operator's decision, or another change first
)

// step is one step of a plan.
type step struct {
	action, state string
	volume        *fsm.Volume // nil: the step is about the node, or a snapshot
	snapshot      string      // a snapshot's or a group snapshot's id
	snapshotName  string
	node          fsm.NodeID
	detail        string
	command       *fsmpb.Command // set when state is stepTodo
}

// planTarget is the node and the host that a plan is about, and the fork that it reads them from.
type planTarget struct {
	state *fsm.State
	req   *adminpb.PlanRequest
	host  fsm.HostID // the node's host: the requested one, else the one registered now
	role  uint64     // of a plan of replication: the requested role's index, else the one that the relation has now
	// incarnation is the cluster's, of adopt-cluster.
	incarnation uint64
	device      string     // of an import: the identity of the device that the plan is about
	node        fsm.NodeID // of forget-import: the one that has it
}

// planner makes a plan by dry runs on a fork of the state. Each command of a step that is to do was
// applied there, so later steps see the effects of earlier ones, and a command that would be rejected
// is known before anything is proposed.
type planner struct {
	planTarget
	index uint64 // of the state before the first dry run
	steps []step
	// listed and unlisted count the steps of each state that are in steps, and those left out.
	listed, unlisted map[string]int
	dryRuns          int    // number of commands tried
	dryRunFault      error  // a command faulted: the fork must not be used any more
	stack            string // of a panic in the planner itself
	// volumesOfLostHost are the volumes of a host that the plan records as lost, as they were before.
	volumesOfLostHost []*fsm.Volume
	// unplaceable are the volumes for which no other node can take a replica.
	unplaceable map[fsm.VolumeID]bool
	attachFacts func(*fsmpb.Command)
	backups     map[fsm.NodeID]headerBackup // of restore-header
	holdings    map[fsm.NodeID]holdings     // of adopt-cluster
	voters      []*fsmpb.VoterCertificate   // of adopt-cluster, where a controller is revoked
	candidates  []*fsmpb.ImportCandidate    // of import-lv
	replicas    []importedReplica           // of import-drbd
	// Of drain: how many volumes are published on the host, staged there, and have their last copy there.
	published, staged, onlyHere uint64
}

// verbs are the planners of the verbs.
var verbs = map[string]func(*planner) error{
	"drain": (*planner).planDrain, "undrain": (*planner).planUndrain, "evict": (*planner).planEvict, "lost": (*planner).planLost,
	"replace": (*planner).planReplace, "adopt": (*planner).planAdopt, "force-primary": (*planner).planForcePrimary,
	"remove-kept": (*planner).planRemoveKept, "fence": (*planner).planFence, "unfence": (*planner).planUnfence,
	adoptCluster: (*planner).planAdoptCluster,
	importLV:     (*planner).planImport, forgetImport: (*planner).planForgetImport, importDRBD: (*planner).planImportDRBD,
	restoreHeader:     (*planner).planRestoreHeader,
	enableReplication: (*planner).planReplication, disableReplication: (*planner).planReplication,
	promoteSite: (*planner).planReplication, demoteSite: (*planner).planReplication, resyncSite: (*planner).planReplication,
}

// Verbs are the verbs that have a plan, sorted.
func Verbs() []string { return slices.Sorted(maps.Keys(verbs)) }

// Plan returns the steps of a verb as they are now; it changes nothing.
func (s *Server) Plan(ctx context.Context, req *adminpb.PlanRequest) (*adminpb.PlanResponse, error) {
	p, err := s.makePlan(ctx, req)
	if err != nil {
		return nil, err
	}
	return p.response(), nil
}

// makePlan makes the plan from a linearizable copy of the state.
func (s *Server) makePlan(ctx context.Context, req *adminpb.PlanRequest) (*planner, error) {
	if err := checkRequest(req); err != nil {
		return nil, err
	}
	release, err := s.acquirePlan(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	req, backups, err := s.findHeaderBackups(ctx, req)
	if err != nil {
		return nil, s.Error(err)
	}
	held, err := s.askHoldings(ctx, req)
	if err != nil {
		return nil, s.Error(err)
	}
	voters, err := s.askVoters(ctx, held)
	if err != nil {
		return nil, err
	}
	candidates, err := s.askCandidates(ctx, req)
	if err != nil {
		return nil, s.Error(err)
	}
	replicas, err := s.askReplicas(ctx, req)
	if err != nil {
		return nil, s.Error(err)
	}
	st, err := s.fork(ctx, false)
	if err != nil {
		return nil, err
	}
	p := &planner{replicas: replicas, holdings: held, voters: voters, candidates: candidates, planTarget: planTarget{state: st, req: req}, attachFacts: s.AttachFacts, backups: backups, index: st.Cluster().Index, unplaceable: map[fsm.VolumeID]bool{}, listed: map[string]int{}, unlisted: map[string]int{}}
	if err := p.findHost(); err != nil {
		return nil, s.Error(err)
	}
	switch err := p.run(verbs[req.GetVerb()]); {
	case p.dryRunFault != nil:
		s.Logger.ErrorContext(ctx, "a plan met a bug; nothing was proposed", "error", p.dryRunFault, "stack", p.stack)
		return nil, status.Error(codes.Internal, p.dryRunFault.Error())
	case err != nil:
		return nil, s.Error(err)
	}
	p.state = nil // the fork has dry runs in it; nothing may read it any more
	return p, nil
}

// findHost finds the host that the plan is about; one about CIDRs finds its hosts itself, and one of replication
// is about none.
func (p *planner) findHost() error {
	if ofCIDRs(p.req.GetVerb()) || ofReplication(p.req.GetVerb()) || p.req.GetVerb() == adoptCluster {
		return nil
	}
	if p.req.GetVerb() == forgetImport {
		p.findImported()
		return nil
	}
	if p.req.GetVerb() == importDRBD {
		return p.findReplicaHosts()
	}
	n, ok := p.state.Node(fsm.NodeID(p.req.GetNode()))
	if !ok {
		return fsm.Reject(fsm.NotFound, "no node is registered as %q", p.req.GetNode())
	}
	p.host = n.Host
	if p.req.GetHostId() != "" {
		p.host = fsm.HostID(p.req.GetHostId())
	}
	return nil
}

// subject is what the plan is about, for people.
func (t *planTarget) subject() string {
	switch verb := t.req.GetVerb(); {
	case ofCIDRs(verb):
		return strings.Join(t.req.GetCidrs(), " ")
	case ofReplication(verb):
		return atSite(t.req)
	case verb == adoptCluster:
		return "the cluster's hosts"
	case verb == forgetImport || verb == importDRBD:
		return t.req.GetVolume()
	}
	return t.req.GetNode()
}

// about is the subject with its kind.
func (t *planTarget) about() string {
	if verb := t.req.GetVerb(); ofCIDRs(verb) || ofReplication(verb) || verb == adoptCluster || verb == forgetImport || verb == importDRBD {
		return t.subject()
	}
	return "node " + t.subject()
}

// run makes the plan. A panic fails this call only, not the controller (S70).
func (p *planner) run(verb func(*planner) error) error {
	defer func() {
		if cause := recover(); cause != nil {
			p.dryRunFault = fmt.Errorf("plan %s of %s: %w: %v", p.req.GetVerb(), p.about(), fsm.ErrFault, cause)
			p.stack = string(debug.Stack())
		}
	}()
	return verb(p)
}

// CarryOut proposes the commands of the plan's steps in their order. A step whose command is rejected
// becomes blocked, and the others continue; the next call does what is left. The request names the
// host that the plan showed: when another host has registered under the node's id since, a repeated
// call does nothing to that host (S71).
func (s *Server) CarryOut(ctx context.Context, req *adminpb.PlanRequest) (*adminpb.PlanResponse, error) {
	c, err := s.newCall(ctx, req.GetReason())
	if err != nil {
		return nil, err
	}
	p, err := s.makePlan(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case req.GetVerb() == adoptCluster && req.GetIncarnation() == 0:
		return nil, status.Errorf(codes.InvalidArgument, "carry out %s: name the incarnation that the plan shows, %d", req.GetVerb(), p.incarnation)
	case (req.GetVerb() == importLV || req.GetVerb() == importDRBD) && req.GetDeviceId() == "":
		return nil, status.Errorf(codes.InvalidArgument, "carry out %s: name the device that the plan shows, %s, by its device id", req.GetVerb(), p.device)
	case req.GetHostId() == "" && !ofReplication(req.GetVerb()) && req.GetVerb() != adoptCluster:
		return nil, status.Errorf(codes.InvalidArgument, "carry out %s %s: name the host that the plan shows, %s, by its host id", req.GetVerb(), p.subject(), p.host)
	}
	plan := p.response()
	c.follows(plan.GetSummary(), plan.GetSteps())
	for i := range p.steps {
		if p.holdsBack(i) {
			p.steps[i].state, p.steps[i].detail = stepWaiting, "a volume could not be adopted or deleted"
			continue
		}
		if err := s.carryOut(ctx, c, &p.steps[i], &p.index); err != nil {
			return nil, s.Error(err)
		}
	}
	return p.response(), nil
}

// carryOut proposes the command of one step. A rejection makes the step blocked and is no error. After
// an error it is unknown whether the command was applied; the next call finds out.
func (s *Server) carryOut(ctx context.Context, c *call, t *step, index *uint64) error {
	if t.state != stepTodo || t.command == nil {
		return nil
	}
	out, err := s.Cluster.Propose(ctx, c.stamp(proto.CloneOf(t.command)))
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

// dryRun applies a command to the fork; the error is the rejection, or the fault.
func (p *planner) dryRun(cmd *fsmpb.Command) error {
	_, err := p.tryCommand(cmd)
	return err
}

// tryCommand is dryRun with what the log would answer.
func (p *planner) tryCommand(cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	if p.dryRunFault != nil {
		return nil, p.dryRunFault
	}
	p.dryRuns++
	if rej := fsm.TooNew(p.state.Cluster().FeatureLevel, cmd); rej != nil { // as the leader refuses to propose it (S72)
		return nil, rej
	}
	out, err := (&fsm.DryRun{Fork: p.state, Actor: "admin/plan", AttachFacts: p.attachFacts}).Apply(cmd)
	if err != nil {
		p.dryRunFault = fmt.Errorf("plan %s of %s: try %s: %w", p.req.GetVerb(), p.about(), describeCommand(cmd), err)
		return nil, p.dryRunFault
	}
	return out, fsm.Err(out)
}

// describeCommand formats the command's body on one line.
func describeCommand(cmd *fsmpb.Command) string {
	return strings.Join(strings.Fields(prototext.MarshalOptions{}.Format(&fsmpb.Command{Body: cmd.GetBody()})), " ")
}

// add appends a step, or only counts it when enough steps of its state are listed.
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

// addCommand adds a step that a command does: to do when the dry run accepts the command, else
// blocked with the reason. It returns whether it was accepted.
func (p *planner) addCommand(t step, cmd *fsmpb.Command) bool {
	t.state, t.command = stepTodo, cmd
	err := p.dryRun(cmd)
	if err != nil {
		t.state, t.detail, t.command = stepBlocked, err.Error(), nil
	}
	p.add(t)
	return err == nil
}

// nodeVolumes returns the volumes that have a replica, a publication or a pending teardown on the
// node. They are collected first, because dry runs change the fork.
func (t *planTarget) nodeVolumes() []*fsm.Volume {
	return slices.Collect(t.state.VolumesOn(fsm.NodeID(t.req.GetNode())))
}
