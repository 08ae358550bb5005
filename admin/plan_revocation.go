package admin

import (
	"context"
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

// revocationPlan is the plan of a revocation, or of the end of one.
type revocationPlan struct {
	server  *Server
	req     *adminpb.RevocationPlanRequest
	actor   string
	index   uint64
	state   *fsm.State // a fork; the command was tried on it
	members []Member
	until   time.Time
	steps   []step
}

// PlanRevocation returns the steps as they are now; it changes nothing.
func (s *Server) PlanRevocation(ctx context.Context, req *adminpb.RevocationPlanRequest) (*adminpb.RevocationPlanResponse, error) {
	p, err := s.planRevocation(ctx, req)
	if err != nil {
		return nil, err
	}
	return p.response(), nil
}

// ChangeRevocation carries it out. The request names the time, the serial numbers or the entry that the plan
// showed: repeated later it concerns no certificate that was issued meanwhile.
func (s *Server) ChangeRevocation(ctx context.Context, req *adminpb.RevocationPlanRequest) (*adminpb.RevocationPlanResponse, error) {
	switch {
	case req.GetVerb() == "revoke" && len(req.GetSerials()) == 0 && req.GetIssuedUntil() == "":
		return nil, status.Errorf(codes.InvalidArgument, "revoke %s/%s: name the serial numbers, or the time that the plan shows", req.GetRole(), req.GetName())
	case req.GetVerb() == "unrevoke" && req.GetSince() == 0:
		return nil, status.Errorf(codes.InvalidArgument, "unrevoke %s/%s: name the index of the revocation that the plan shows", req.GetRole(), req.GetName())
	}
	p, err := s.planRevocation(ctx, req)
	if err != nil {
		return nil, err
	}
	c, err := s.newCall(ctx, req.GetReason())
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
	return p.response(), nil
}

func (s *Server) planRevocation(ctx context.Context, req *adminpb.RevocationPlanRequest) (*revocationPlan, error) {
	release, err := s.acquirePlan(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	p := &revocationPlan{server: s, req: req, actor: "admin/plan"}
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
	case "revoke":
		return p, p.planRevoke(ctx)
	case "unrevoke":
		return p, p.planUnrevoke()
	}
	return nil, status.Errorf(codes.InvalidArgument, "there is no plan for %q of a certificate", req.GetVerb())
}

func (p *revocationPlan) planRevoke(ctx context.Context) error {
	if err := p.readTime(); err != nil {
		return err
	}
	cmd := &fsmpb.RevokeIdentity{Role: p.req.GetRole(), Name: p.req.GetName(), Serials: p.req.GetSerials(), Reason: p.req.GetReason(), Voters: voterCertificates(p.members)}
	if !p.until.IsZero() {
		cmd.IssuedUntil = p.until.UnixNano()
	}
	before, _ := p.state.Revocation(cmd.GetRole(), cmd.GetName())
	if err := p.try(step{action: "revoke", detail: p.what()}, &fsmpb.Command{Body: &fsmpb.Command_RevokeIdentity{RevokeIdentity: cmd}}); err != nil {
		return err
	}
	after, revoked := p.state.Revocation(cmd.GetRole(), cmd.GetName())
	switch {
	case !revoked || p.steps[0].state == stepBlocked:
		return nil
	case before != nil && before.Since == after.Since:
		p.steps[0].state, p.steps[0].command = stepDone, nil
	case p.cutsOffCaller(ctx):
		p.steps[0].state, p.steps[0].command = stepBlocked, nil
		p.steps[0].detail = "it is the certificate that you ask with: use another one, or let another admin do it"
		return nil
	}
	p.addCutOff(after)
	return nil
}

// readTime reads up to when certificates are revoked: now where neither a time nor a serial number is named.
func (p *revocationPlan) readTime() (err error) {
	switch {
	case p.req.GetIssuedUntil() != "":
		if p.until, err = time.Parse(time.RFC3339, p.req.GetIssuedUntil()); err != nil {
			return status.Errorf(codes.InvalidArgument, "revoke %s/%s: the time %q is not of the form 2026-01-31T12:00:00Z", p.req.GetRole(), p.req.GetName(), p.req.GetIssuedUntil())
		}
	case len(p.req.GetSerials()) == 0:
		p.until = time.Now().UTC().Truncate(time.Second)
	}
	return nil
}

func (p *revocationPlan) what() string {
	if len(p.req.GetSerials()) > 0 {
		return "certificates " + strings.Join(p.req.GetSerials(), " ")
	}
	return "all certificates that were issued until " + untilView(p.until)
}

// voterCertificates are the controllers that vote, with the certificates that they have now.
func voterCertificates(members []Member) (all []*fsmpb.VoterCertificate) {
	for _, m := range members {
		if !m.Voter {
			continue
		}
		v := &fsmpb.VoterCertificate{Name: m.Name}
		if m.Err == nil && len(m.Certificates) > 0 {
			v.Serial, v.Issued = m.Certificates[0].Serial, m.Certificates[0].Issued.UnixNano()
		}
		all = append(all, v)
	}
	return all
}

// try adds a step whose command is tried on the fork.
func (p *revocationPlan) try(t step, cmd *fsmpb.Command) error {
	cmd.ProposedAt = time.Now().UnixNano() // the leader's clock takes its place
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

// cutsOffCaller tells whether the certificate of the call is one that is named.
func (p *revocationPlan) cutsOffCaller(ctx context.Context) bool {
	return p.server.CallerSerial != nil && p.actor == p.req.GetRole()+"/"+p.req.GetName() &&
		slices.Contains(p.req.GetSerials(), p.server.CallerSerial(ctx))
}

// addCutOff adds whom the revocation cuts off.
func (p *revocationPlan) addCutOff(r *fsm.Revocation) {
	for _, c := range certificatesSeen(p.members) {
		if c.Role == r.Role && c.Name == r.Name && r.Covers(c.Serial, c.Issued) {
			p.steps = append(p.steps, step{action: "cut off", state: stepFollows, node: fsm.NodeID(c.Name),
				detail: fmt.Sprintf("certificate %s, seen by %s: %s", c.Serial, strings.Join(c.by, ", "), lossOf(r.Role))})
		}
	}
}

// lossOf is what a role cannot do without a certificate.
func lossOf(role string) string {
	switch role {
	case "controller":
		return "this controller neither votes nor serves until it has another certificate; `holdfast members remove` takes it out"
	case "node":
		return "this host has no session until it has another certificate: it stages nothing new, and is unreachable"
	default:
		return "this operator's calls are refused"
	}
}

func (p *revocationPlan) planUnrevoke() error {
	r, revoked := p.state.Revocation(p.req.GetRole(), p.req.GetName())
	if !revoked {
		p.steps = append(p.steps, step{action: "unrevoke", state: stepDone, node: fsm.NodeID(p.req.GetName()), detail: "nothing of it is revoked"})
		return nil
	}
	since := p.req.GetSince()
	if since == 0 {
		since = r.Since
		p.req.Since = since
	}
	return p.try(step{action: "unrevoke", detail: fmt.Sprintf("revoked at index %d: %s", r.Since, r.Reason)}, &fsmpb.Command{Body: &fsmpb.Command_UnrevokeIdentity{
		UnrevokeIdentity: &fsmpb.UnrevokeIdentity{Role: r.Role, Name: r.Name, Since: since}}})
}

func (p *revocationPlan) response() *adminpb.RevocationPlanResponse {
	out := &adminpb.RevocationPlanResponse{
		Index: p.index, Verb: p.req.GetVerb(), Role: p.req.GetRole(), Name: p.req.GetName(), Serials: p.req.GetSerials(),
		IssuedUntil: untilView(p.until), Since: p.req.GetSince(), Done: p.steps[0].state == stepDone,
	}
	for i := range p.steps {
		out.Steps = append(out.Steps, p.steps[i].view())
	}
	out.Summary = fmt.Sprintf("%s %s/%s: %s", out.GetVerb(), out.GetRole(), out.GetName(), p.steps[0].state)
	return out
}

func revocationPlanTable(w io.Writer, a *adminpb.RevocationPlanResponse) {
	row(w, "STATE", "ACTION", "NAME", "DETAIL")
	for _, s := range a.GetSteps() {
		row(w, s.GetState(), s.GetAction(), s.GetNode(), s.GetDetail())
	}
	fmt.Fprintf(w, "%s\n", listing.OneLine(a.GetSummary()))
	planMark(w, a.GetSummary(), a.GetSteps())
}
