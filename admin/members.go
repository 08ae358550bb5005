package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Members lists the members of the Raft configuration.
func (s *Server) Members(ctx context.Context, _ *adminpb.MembersRequest) (*adminpb.MembersResponse, error) {
	at, members, err := s.members(ctx)
	if err != nil {
		return nil, err
	}
	resp := &adminpb.MembersResponse{Index: at, Members: mapSlice(members, memberView)}
	s.addHealth(members, resp.GetMembers())
	resp.Leader = leader(members, slices.Max(append(mapSlice(members, func(m Member) uint64 { return m.Term }), 0)))
	return resp, nil
}

// members requests the status of all members after a linearizable read, so that the
// configuration is at least as new as the read.
func (s *Server) members(ctx context.Context) (uint64, []Member, error) {
	at, err := s.Cluster.Read(ctx, func(*fsm.State) error { return nil })
	if err != nil {
		return 0, nil, s.Error(err)
	}
	members := s.Cluster.Members(ctx, 0)
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.MemberID, b.MemberID))
	})
	return at, members, nil
}

// memberPlanner makes the plan of a change of the Raft configuration.
type memberPlanner struct {
	server     *Server
	req        *adminpb.MemberPlanRequest
	index      uint64
	members    []Member
	cluster    fsm.Cluster
	mayAskPeer bool   // whether the address in the request may be connected to
	id         string // the Raft id of the member that the change is about
	address    string // Raft address of the member that joins or leaves
	steps      []memberStep
	call       *call // of a change, once it began
}

// memberStep is one step of a change; apply is set where there is something to do.
type memberStep struct {
	action, state, name, detail string
	apply                       func(context.Context) error
}

var memberVerbs = map[string]func(*memberPlanner, context.Context) error{
	"add": (*memberPlanner).planAdd, "remove": (*memberPlanner).planRemove, "replace": (*memberPlanner).planReplace,
	"demote": (*memberPlanner).planDemote, "promote": (*memberPlanner).planPromote, "transfer": (*memberPlanner).planTransfer,
}

// PlanMember returns the steps of a change as they are now; it changes nothing.
func (s *Server) PlanMember(ctx context.Context, req *adminpb.MemberPlanRequest) (*adminpb.MemberPlanResponse, error) {
	p, err := s.planMember(ctx, req)
	if err != nil {
		return nil, err
	}
	return p.response(), nil
}

// ChangeMember carries out a change. The request names the member id that the plan showed, because
// a name or an address may belong to another member meanwhile.
func (s *Server) ChangeMember(ctx context.Context, req *adminpb.MemberPlanRequest) (*adminpb.MemberPlanResponse, error) {
	if _, err := uuid.Parse(req.GetMemberId()); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "%s a member: a change names the member id that its plan shows, not %q", req.GetVerb(), req.GetMemberId())
	}
	p, err := s.planMember(ctx, req)
	if err != nil {
		return nil, err
	}
	if p.id != "" && p.id != req.GetMemberId() {
		return nil, status.Errorf(codes.FailedPrecondition, "%s member %s: it is member %s that is meant now: look at the plan again", req.GetVerb(), req.GetMemberId(), p.id)
	}
	if err := p.recordCall(ctx); err != nil {
		return nil, err
	}
	if changed, err := p.carryOut(ctx); err != nil {
		return nil, s.Error(err)
	} else if changed {
		retry := proto.CloneOf(req)
		retry.Address = cmp.Or(req.GetAddress(), p.address) // a removed member's address is no longer in the configuration
		if p, err = s.planMember(ctx, retry); err != nil {
			return nil, err
		}
	}
	return p.response(), nil
}

// recordCall records who changes the members, why and by which plan, where something is to do: Raft's configuration does not say.
// A member that cannot be recorded as changed is changed all the same: that may be the remedy for what the log refuses.
func (p *memberPlanner) recordCall(ctx context.Context) (err error) {
	if p.call, err = p.server.newKeptCall(ctx, p.req.GetReason()); err != nil {
		return err
	}
	if !slices.ContainsFunc(p.steps, func(t memberStep) bool { return t.state == stepTodo }) {
		return nil
	}
	plan := p.response()
	p.call.follows(plan.GetSummary(), plan.GetSteps())
	return p.server.recordOrGoOn(ctx, p.call, "members "+p.req.GetVerb(), "member "+p.req.GetMemberId())
}

// carryOut does the steps that are to do. A rejected one becomes blocked and ends it. changed
// tells that steps were done and none was rejected, so that the plan must be made anew.
func (p *memberPlanner) carryOut(ctx context.Context) (changed bool, err error) {
	var refused *fsm.Rejection
	for i := range p.steps {
		t := &p.steps[i]
		if t.state != stepTodo {
			continue
		}
		switch err := t.apply(ctx); {
		case errors.As(err, &refused):
			t.state, t.detail = stepBlocked, refused.Message
			return false, nil
		case err != nil:
			return false, err
		}
		changed = true
	}
	return changed, nil
}

func (s *Server) planMember(ctx context.Context, req *adminpb.MemberPlanRequest) (*memberPlanner, error) {
	verb, known := memberVerbs[req.GetVerb()]
	if !known {
		return nil, status.Errorf(codes.InvalidArgument, "there is no plan for %q of a member", req.GetVerb())
	}
	at, members, err := s.members(ctx)
	if err != nil {
		return nil, err
	}
	p := &memberPlanner{server: s, req: req, index: at, members: members, cluster: s.cluster(), mayAskPeer: s.isAdmin(ctx)}
	return p, verb(p, ctx)
}

// statusAt asks the controller at the plan's address for its status. For others than admins no
// connection is made: a viewer must not make a controller connect to an address of its choice.
func (p *memberPlanner) statusAt(ctx context.Context) (PeerStatus, error) {
	if !p.mayAskPeer {
		return PeerStatus{}, errPeerNotAsked
	}
	return p.server.Membership.StatusAt(ctx, p.address)
}

var errPeerNotAsked = errors.New("an admin is shown who waits there, a viewer is not")

// peerErrorDetail says why the status of the controller at an address is unknown, and what to do.
func peerErrorDetail(err error) string {
	if errors.Is(err, errPeerNotAsked) {
		return err.Error()
	}
	return err.Error() + ": start a controller there, with an empty data folder and --join"
}

// findMember returns the member with the requested id, name or address; nil when there is none.
func (p *memberPlanner) findMember() (*Member, error) {
	requested := cmp.Or(p.req.GetMemberId(), p.req.GetMember())
	var found *Member
	for i := range p.members {
		m := &p.members[i]
		if m.MemberID == requested {
			return m, nil
		}
		if requested == "" || m.Name != requested && m.Address != requested {
			continue
		}
		if found != nil {
			return nil, status.Errorf(codes.InvalidArgument, "members %s and %s are both called %s: name one by its id", found.MemberID, m.MemberID, requested)
		}
		found = m
	}
	return found, nil
}

// memberAt returns the member with an address; nil when there is none.
func (p *memberPlanner) memberAt(addr string) *Member {
	for i := range p.members {
		if p.members[i].Address == addr {
			return &p.members[i]
		}
	}
	return nil
}

func (p *memberPlanner) add(t memberStep) { p.steps = append(p.steps, t) }

func (p *memberPlanner) planRemove(context.Context) error {
	m, err := p.requireMember()
	if err == nil {
		p.addRemoval(m, "")
		p.addForget()
	}
	return err
}

// requireMember returns the requested member; nil when it was requested by an id that is not in the
// configuration any more.
func (p *memberPlanner) requireMember() (*Member, error) {
	m, err := p.findMember()
	if err != nil {
		return nil, err
	}
	if m != nil {
		p.id, p.address = m.MemberID, m.Address
		return m, nil
	}
	requested := cmp.Or(p.req.GetMemberId(), p.req.GetMember())
	if _, err := uuid.Parse(requested); err != nil {
		return nil, status.Errorf(codes.NotFound, "no member has the id, name or address %q; `holdfast members list` shows them", requested)
	}
	p.id = requested
	return nil, nil
}

// addRemoval adds the step that removes a member, or a blocked step with the reason.
func (p *memberPlanner) addRemoval(m *Member, blocked string) {
	if m == nil {
		p.add(memberStep{action: "remove", state: stepDone, detail: "member " + p.id + " is not in the configuration"})
		return
	}
	t := memberStep{action: "remove", state: stepTodo, name: m.Name,
		detail: fmt.Sprintf("member %s at %s", m.MemberID, m.Address),
		apply:  func(ctx context.Context) error { return p.server.Membership.Remove(ctx, m.MemberID) }}
	if blocked = cmp.Or(blocked, p.removalBlocker(m)); blocked != "" {
		t.state, t.detail = stepBlocked, t.detail+": "+blocked
	}
	p.add(t)
}

// removalBlocker says why a voter may not be removed now. The leader checks it again.
func (p *memberPlanner) removalBlocker(target *Member) string {
	remaining, ready := 0, 0
	for i := range p.members {
		m := &p.members[i]
		switch {
		case !target.Voter || m.MemberID == target.MemberID:
			continue
		case !m.Voter && p.isNonVoter(m.MemberID): // it stays one
			continue
		case !m.Voter:
			return fmt.Sprintf("member %s (%s) is catching up: wait until it votes, or remove it first", m.MemberID, m.Name)
		}
		remaining++
		if m.Err == nil && m.Trouble == "" {
			ready++
		}
	}
	switch {
	case !target.Voter:
		return ""
	case remaining == 0:
		return "it is the last voter"
	case ready <= remaining/2:
		return fmt.Sprintf("of the %d voters that were left only %d answer and are ready, and they would be no quorum", remaining, ready)
	}
	return ""
}

// planAdd adds the controller that listens at an address, and shows how far it has caught up.
func (p *memberPlanner) planAdd(ctx context.Context) error {
	p.address = cmp.Or(p.req.GetAddress(), p.req.GetMember())
	if m := p.memberAt(p.address); m != nil {
		p.addJoined(m)
		return nil
	}
	peer, err := p.statusAt(ctx)
	if err != nil {
		p.add(memberStep{action: "start", state: stepWaiting, detail: peerErrorDetail(err)})
		return nil
	}
	p.id = peer.MemberID
	p.addJoin(ctx, peer)
	return nil
}

// addJoin adds the step that makes the controller at the address a member.
func (p *memberPlanner) addJoin(ctx context.Context, peer PeerStatus) {
	own := ""
	_ = p.server.Cluster.View(func(st *fsm.State) error { own = st.Cluster().ID; return nil })
	t := memberStep{action: "join", state: stepTodo, name: peer.Name, detail: fmt.Sprintf("member %s at %s", peer.MemberID, p.address),
		apply: func(ctx context.Context) error { return p.server.Membership.Add(ctx, peer.MemberID, p.address) }}
	if peer.ClusterID != "" && peer.ClusterID != own {
		t.state, t.detail = stepBlocked, t.detail+" belongs to cluster "+peer.ClusterID+": give it an empty data folder"
	}
	p.add(t)
	p.add(memberStep{action: "vote", state: stepFollows, name: peer.Name, detail: "when it has caught up"})
}

// addJoined shows how far a member has caught up.
func (p *memberPlanner) addJoined(m *Member) {
	p.id = cmp.Or(p.id, m.MemberID)
	p.add(memberStep{action: "join", state: stepDone, name: m.Name, detail: fmt.Sprintf("member %s at %s", m.MemberID, m.Address)})
	t := memberStep{action: "vote", state: stepDone, name: m.Name}
	switch {
	case m.Voter:
	case p.isNonVoter(m.MemberID):
		t.state, t.detail = stepFollows, "it was demoted: `holdfast members promote` lets it vote"
	case m.Err != nil:
		t.state, t.detail = stepWaiting, m.Err.Error()
	default:
		t.state, t.detail = stepWaiting, fmt.Sprintf("it has applied index %d of %d", m.Applied, p.index)
	}
	p.add(t)
}

// planReplace removes a member that does not answer, and waits for its successor to join.
func (p *memberPlanner) planReplace(ctx context.Context) error {
	m, err := p.requireMember()
	if err != nil {
		return err
	}
	p.address = cmp.Or(p.req.GetAddress(), p.address)
	blocked := ""
	if m != nil && m.Err == nil {
		blocked = "it answers: replace is for one that is gone; `holdfast members remove` takes out one that works"
	}
	p.addRemoval(m, blocked)
	p.addForget()
	defer func() { p.addSpread(p.memberAt(p.address), m) }()
	switch next := p.memberAt(p.address); {
	case next != nil && next.MemberID != p.id:
		p.addJoined(next)
	case p.address == "":
		p.add(memberStep{action: "join", state: stepFollows, detail: "name the new controller's Raft address with --address to see how far it is"})
	case blocked != "":
	default:
		p.addSuccessor(ctx, m == nil)
	}
	return nil
}

// addSuccessor shows the controller at the address. It joins by itself once the old member is removed.
func (p *memberPlanner) addSuccessor(ctx context.Context, removed bool) {
	state := stepFollows
	if removed {
		state = stepWaiting
	}
	peer, err := p.statusAt(ctx)
	switch {
	case err != nil:
		p.add(memberStep{action: "join", state: state, detail: peerErrorDetail(err)})
	default:
		p.add(memberStep{action: "join", state: state, name: peer.Name, detail: fmt.Sprintf("member %s at %s; it asks by itself: %s", peer.MemberID, p.address, cmp.Or(peer.Detail, "ready"))})
	}
	p.add(memberStep{action: "vote", state: stepFollows, name: peer.Name, detail: "when it has caught up"})
}

func (p *memberPlanner) response() *adminpb.MemberPlanResponse {
	out := &adminpb.MemberPlanResponse{Index: p.index, Verb: p.req.GetVerb(), MemberId: p.id, Address: p.address}
	count := map[string]int{}
	for _, t := range p.steps {
		count[t.state]++
		out.Steps = append(out.Steps, &adminpb.PlanStep{Action: t.action, State: t.state, Node: t.name, Detail: t.detail})
	}
	out.Done = count[stepTodo]+count[stepWaiting]+count[stepBlocked] == 0
	out.Summary = fmt.Sprintf("%s member %s: %d to do, %d waiting for others, %d blocked, %d done",
		out.GetVerb(), cmp.Or(p.id, "unknown"), count[stepTodo], count[stepWaiting], count[stepBlocked], count[stepDone])
	return out
}

func memberPlanTable(w io.Writer, a *adminpb.MemberPlanResponse) {
	row(w, "STATE", "ACTION", "CONTROLLER", "DETAIL")
	for _, s := range a.GetSteps() {
		row(w, s.GetState(), s.GetAction(), s.GetNode(), s.GetDetail())
	}
	fmt.Fprintf(w, "%s (at index %d)\n", listing.OneLine(a.GetSummary()), a.GetIndex())
	planMark(w, a.GetSummary(), a.GetSteps())
}
