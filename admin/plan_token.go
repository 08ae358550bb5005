package admin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// tokenPlan is the plan of the creation of a join token, or of its revocation.
type tokenPlan struct {
	server  *Server
	req     *adminpb.TokenPlanRequest
	actor   string
	index   uint64
	state   *fsm.State // a fork; the command was tried on it
	members []Member
	pin     []byte
	cluster string // in certificates
	steps   []step
}

// PlanToken returns the steps as they are now; it changes nothing.
func (s *Server) PlanToken(ctx context.Context, req *adminpb.TokenPlanRequest) (*adminpb.TokenPlanResponse, error) {
	p, err := s.planToken(ctx, req)
	if err != nil {
		return nil, err
	}
	return p.response(), nil
}

// ChangeToken carries it out. Of a token that is created the request has the hash of the secret, which only its maker
// knows, and the id: said twice, it creates one token.
func (s *Server) ChangeToken(ctx context.Context, req *adminpb.TokenPlanRequest) (*adminpb.TokenPlanResponse, error) {
	switch {
	case req.GetId() == "":
		return nil, status.Errorf(codes.InvalidArgument, "%s a join token: name its id", req.GetVerb())
	case req.GetVerb() == "create" && len(req.GetSecretHash()) != sha256.Size:
		return nil, status.Errorf(codes.InvalidArgument, "create join token %s: name the SHA-256 of its secret", req.GetId())
	}
	p, err := s.planToken(ctx, req)
	if err != nil {
		return nil, err
	}
	c, err := s.newKeptCall(ctx, req.GetReason())
	if err != nil {
		return nil, err
	}
	plan := p.response()
	c.follows(plan.GetSummary(), plan.GetSteps())
	for i := range p.steps {
		if err := s.carryOut(ctx, c, &p.steps[i], &p.index); err != nil {
			return nil, s.Error(err)
		}
	}
	if err := s.read(ctx, func(*fsm.State) error { return nil }); err != nil {
		return nil, err
	}
	p.state = s.Cluster.Fork()
	return p.response(), nil
}

func (s *Server) planToken(ctx context.Context, req *adminpb.TokenPlanRequest) (*tokenPlan, error) {
	release, err := s.acquirePlan(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	p := &tokenPlan{server: s, req: req, actor: "admin/plan"}
	if s.isAdmin(ctx) {
		if p.actor, err = s.Actor(ctx); err != nil {
			return nil, status.Error(codes.Unauthenticated, err.Error())
		}
	}
	if p.index, p.members, err = s.members(ctx); err != nil {
		return nil, err
	}
	p.state = s.Cluster.Fork()
	switch req.GetVerb() {
	case "create":
		return p, p.planCreate()
	case "revoke":
		return p, p.planRevoke()
	}
	return nil, status.Errorf(codes.InvalidArgument, "there is no plan for %q of a join token", req.GetVerb())
}

func (p *tokenPlan) planCreate() (err error) {
	if p.server.TokenAuthority == nil {
		return status.Error(codes.Unimplemented, "create a join token: this controller creates none")
	}
	if p.pin, p.cluster, err = p.server.TokenAuthority(p.req.GetRole(), p.req.GetName()); err != nil {
		return err
	}
	former := p.former()
	t := step{action: "create", detail: fmt.Sprintf("a token for one %s, good for %s", p.req.GetRole(), p.ttl())}
	if err := p.try(t, p.createCommand()); err != nil {
		return err
	}
	first := &p.steps[0]
	if first.state == stepBlocked {
		return nil
	}
	if of, known := p.server.Cluster.Fork().JoinToken(p.req.GetId()); known {
		first.state, first.command, first.detail = stepDone, nil, "good until "+timeView(of.Expires)
		return nil
	}
	if len(p.addresses()) == 0 {
		first.state, first.command = stepBlocked, nil
		first.detail = "no controller that answers issues certificates: start one with --enroll-listen and --ca-dir"
		return nil
	}
	p.steps = append(p.steps, former...)
	p.addInUse()
	return nil
}

// createCommand has an id and a hash of its own where the request is for a plan only.
func (p *tokenPlan) createCommand() *fsmpb.Command {
	c := &fsmpb.CreateJoinToken{
		TokenId: p.req.GetId(), SecretHash: p.req.GetSecretHash(), Role: p.req.GetRole(), Name: p.req.GetName(),
		CaPin: p.pin, Address: p.req.GetAddress(), Ttl: int64(p.ttl()),
	}
	if c.GetTokenId() == "" {
		c.TokenId = strings.Repeat("f", 16)
	}
	if len(c.GetSecretHash()) == 0 {
		c.SecretHash = make([]byte, sha256.Size)
	}
	return &fsmpb.Command{Body: &fsmpb.Command_CreateJoinToken{CreateJoinToken: c}}
}

func (p *tokenPlan) ttl() time.Duration { return time.Duration(p.req.GetTtlSeconds()) * time.Second }

// former are the steps for the tokens of the identity that the new one replaces.
func (p *tokenPlan) former() (steps []step) {
	for t := range p.state.JoinTokens() {
		if t.Role == p.req.GetRole() && t.Name == p.req.GetName() && t.Revoked == 0 {
			is := tokenCondition(t, p.state.Cluster().Time)
			steps = append(steps, step{action: "revoke", state: stepFollows, detail: "token " + t.ID + " of the same name, which is " + is})
		}
	}
	return steps
}

// addInUse notes that a process with the identity is connected: the token's holder takes its name.
func (p *tokenPlan) addInUse() {
	for _, c := range certificatesSeen(p.members) {
		if c.Role == p.req.GetRole() && c.Name == p.req.GetName() {
			p.steps = append(p.steps, step{action: "note", state: stepFollows, node: fsm.NodeID(c.Name),
				detail: fmt.Sprintf("certificate %s of this name is in use, seen by %s; it stays good until it is revoked", c.Serial, strings.Join(c.by, ", "))})
		}
	}
}

func (p *tokenPlan) planRevoke() error {
	of, known := p.state.JoinToken(p.req.GetId())
	if !known {
		return status.Errorf(codes.NotFound, "revoke join token %s: there is none; `holdfast tokens list` shows them", fsm.Truncate(p.req.GetId(), 32))
	}
	p.req.Role, p.req.Name, p.req.Address = of.Role, of.Name, of.Address
	t := step{action: "revoke", detail: "it is " + tokenCondition(of, p.state.Cluster().Time)}
	if of.Revoked != 0 {
		t.state, t.node = stepDone, fsm.NodeID(of.Name)
		p.steps = append(p.steps, t)
		return nil
	}
	if err := p.try(t, &fsmpb.Command{Body: &fsmpb.Command_RevokeJoinToken{RevokeJoinToken: &fsmpb.RevokeJoinToken{TokenId: of.ID}}}); err != nil {
		return err
	}
	if of.Used != 0 {
		p.steps = append(p.steps, step{action: "note", state: stepFollows, node: fsm.NodeID(of.Name),
			detail: fmt.Sprintf("the certificate that it brought stays good: `holdfast certs revoke %s %s` ends that", of.Role, of.Name)})
	}
	return nil
}

// try adds a step whose command is tried on the fork.
func (p *tokenPlan) try(t step, cmd *fsmpb.Command) error {
	cmd.ProposedAt = p.server.Now().UnixNano() // the leader's clock takes its place
	out, err := (&fsm.DryRun{Fork: p.state, Actor: p.actor}).Apply(cmd)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	t.state, t.command, t.node = stepTodo, cmd, fsm.NodeID(p.req.GetName())
	if refused := fsm.Err(out); refused != nil {
		t.state, t.command, t.detail = stepBlocked, nil, refused.Error()
	}
	p.steps = append(p.steps, t)
	return nil
}

// addresses are those of the enrolment listeners of the members that answer.
func (p *tokenPlan) addresses() (all []string) {
	for _, m := range p.members {
		if m.Err == nil && m.EnrollAddr != "" {
			all = append(all, m.EnrollAddr)
		}
	}
	slices.Sort(all)
	return all
}

func (p *tokenPlan) response() *adminpb.TokenPlanResponse {
	out := &adminpb.TokenPlanResponse{
		Index: p.index, Verb: p.req.GetVerb(), Id: p.req.GetId(), Role: p.req.GetRole(), Name: p.req.GetName(), Address: p.req.GetAddress(),
		CaPin: p.pin, Cluster: p.cluster, EnrollAddresses: p.addresses(), Done: p.steps[0].state == stepDone,
	}
	if of, known := p.state.JoinToken(p.req.GetId()); known && out.GetDone() {
		out.Expires = timeView(of.Expires)
	}
	for i := range p.steps {
		out.Steps = append(out.Steps, p.steps[i].view())
	}
	out.Summary = fmt.Sprintf("%s a join token of %s/%s: %s", out.GetVerb(), out.GetRole(), out.GetName(), p.steps[0].state)
	return out
}

func tokenPlanTable(w io.Writer, a *adminpb.TokenPlanResponse) {
	row(w, "STATE", "ACTION", "NAME", "DETAIL")
	for _, s := range a.GetSteps() {
		row(w, s.GetState(), s.GetAction(), s.GetNode(), s.GetDetail())
	}
	fmt.Fprintf(w, "%s\n", listing.OneLine(a.GetSummary()))
}
