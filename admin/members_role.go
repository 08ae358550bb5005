package admin

import (
	"cmp"
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// planDemote records that a voter is not to vote, and then has the leader make it a non-voter: recorded first, so that no
// leader promotes it again meanwhile.
func (p *memberPlanner) planDemote(context.Context) error {
	m, err := p.requireMember()
	if err != nil {
		return err
	}
	if m == nil {
		return p.notConfigured()
	}
	blocked := ""
	if m.Voter {
		blocked = p.removalBlocker(m)
	}
	p.addRecord(m, true, blocked)
	t := memberStep{action: "demote", state: stepDone, name: m.Name, detail: "it does not vote"}
	switch {
	case blocked != "":
		t.state, t.detail = stepBlocked, blocked
	case m.Voter:
		t.state, t.detail = stepTodo, fmt.Sprintf("member %s at %s becomes a non-voter", m.MemberID, m.Address)
		t.apply = func(ctx context.Context) error { return p.server.Membership.Demote(ctx, m.MemberID) }
	}
	p.add(t)
	return nil
}

// planPromote ends a demotion: a leader promotes the member by itself once it has caught up.
func (p *memberPlanner) planPromote(context.Context) error {
	m, err := p.requireMember()
	if err != nil {
		return err
	}
	if m == nil {
		return p.notConfigured()
	}
	p.addRecord(m, false, "")
	defer p.addSpread(m, nil)
	t := memberStep{action: "vote", state: stepDone, name: m.Name}
	switch {
	case m.Voter:
	case m.Err != nil:
		t.state, t.detail = stepWaiting, m.Err.Error()
	case p.isNonVoter(m.MemberID):
		t.state, t.detail = stepFollows, "when it has caught up"
	default:
		t.state, t.detail = stepWaiting, fmt.Sprintf("it has applied index %d of %d", m.Applied, p.index)
	}
	p.add(t)
	return nil
}

func (p *memberPlanner) notConfigured() error {
	return status.Errorf(codes.FailedPrecondition, "%s member %s: it is not in the configuration", p.req.GetVerb(), p.id)
}

func (p *memberPlanner) isNonVoter(memberID string) bool { return p.cluster.IsNonVoter(memberID) }

// addRecord adds the step that records in the log whether a member is to vote.
func (p *memberPlanner) addRecord(m *Member, nonVoter bool, blocked string) {
	what := "every leader promotes it when it has caught up"
	if nonVoter {
		what = "no leader promotes it"
	}
	t := memberStep{action: "record", state: stepTodo, name: m.Name, detail: what,
		apply: func(ctx context.Context) error { return p.recordRole(ctx, m.MemberID, nonVoter) }}
	switch {
	case p.isNonVoter(m.MemberID) == nonVoter:
		t.state = stepDone
	case blocked != "":
		t.state, t.detail = stepBlocked, blocked
	case p.cluster.FeatureLevel < fsm.Level3:
		t.state, t.detail = stepBlocked, fmt.Sprintf("it needs feature level %d, the cluster runs at %d: `holdfast upgrade finish` raises it", fsm.Level3, p.cluster.FeatureLevel)
	}
	p.add(t)
}

// recordRole proposes it in the caller's name.
func (p *memberPlanner) recordRole(ctx context.Context, memberID string, nonVoter bool) error {
	_, err := p.server.Cluster.Propose(ctx, p.call.stamp(&fsmpb.Command{Body: &fsmpb.Command_SetMemberRole{SetMemberRole: &fsmpb.SetMemberRole{MemberId: memberID, NonVoter: nonVoter}}}))
	return err
}

// addForget drops what is recorded of a member that is removed: its id is never used again.
func (p *memberPlanner) addForget() {
	if removal := p.steps[len(p.steps)-1]; p.isNonVoter(p.id) && removal.state != stepBlocked {
		p.add(memberStep{action: "forget", state: stepTodo, detail: "that it is not to vote",
			apply: func(ctx context.Context) error { return p.recordRole(ctx, p.id, false) }})
	}
}

// planTransfer hands leadership to a voter: the one that is named, else the one that is furthest of those that are ready.
func (p *memberPlanner) planTransfer(context.Context) error {
	m := p.bestSuccessor()
	if cmp.Or(p.req.GetMemberId(), p.req.GetMember()) != "" {
		var err error
		if m, err = p.requireMember(); err != nil {
			return err
		}
		if m == nil {
			return p.notConfigured()
		}
	}
	if m == nil {
		p.add(memberStep{action: "transfer", state: stepBlocked, detail: "no other voter answers and is ready"})
		return nil
	}
	p.id, p.address = m.MemberID, m.Address
	t := memberStep{action: "transfer", state: stepTodo, name: m.Name, detail: fmt.Sprintf("leadership goes to member %s at %s", m.MemberID, m.Address),
		apply: func(ctx context.Context) error { return p.server.Membership.Transfer(ctx, m.MemberID) }}
	switch {
	case m == p.leading():
		t.state, t.detail = stepDone, fmt.Sprintf("member %s leads", m.MemberID)
	case !m.Voter:
		t.state, t.detail = stepBlocked, "it does not vote"
	case m.Err != nil:
		t.state, t.detail = stepBlocked, "it does not answer: "+m.Err.Error()
	case m.Trouble != "":
		t.state, t.detail = stepBlocked, "it is not ready: "+m.Trouble
	}
	p.add(t)
	return nil
}

// leading is the member that leads, nil when none says so.
func (p *memberPlanner) leading() (leading *Member) {
	for i := range p.members {
		if m := &p.members[i]; m.Err == nil && m.Role == "leader" && (leading == nil || m.Term > leading.Term) {
			leading = m
		}
	}
	return leading
}

// bestSuccessor is the voter beside the leader that has applied most, of those that are ready; nil when there is none.
func (p *memberPlanner) bestSuccessor() (best *Member) {
	for i := range p.members {
		m := &p.members[i]
		if m.Voter && m.Err == nil && m.Trouble == "" && m != p.leading() && (best == nil || m.Applied > best.Applied) {
			best = m
		}
	}
	return best
}
