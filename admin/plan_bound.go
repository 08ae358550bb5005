package admin

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// What a plan costs does not grow with how much it is about, but for a look at each of the
// node's volumes. Each plan has a copy of the state, which shares with the original
// whatever is not changed.
const (
	// maxPlans is how many plans are made at once for viewers, and how many for admins,
	// whom viewers must not keep waiting.
	maxPlans = 2
	// maxTodo is after how many steps to do no more are tried: they are for the next call.
	maxTodo = 1000
	// maxDryRuns is after how many commands none is tried any more.
	maxDryRuns = 20_000
	// maxListed is how many steps of each other state a plan lists.
	maxListed = 1000
)

// planTimeout is how long a plan waits for others.
var planTimeout = 5 * time.Second

// acquirePlan waits until a plan may be made; what it returns ends it.
func (s *Server) acquirePlan(ctx context.Context) (release func(), err error) {
	plans := s.plans
	if s.isAdmin(ctx) {
		plans = s.adminPlans
	}
	timer := time.NewTimer(planTimeout)
	defer timer.Stop()
	select {
	case plans <- struct{}{}:
		return func() { <-plans }, nil
	case <-timer.C:
		return nil, status.Errorf(codes.ResourceExhausted, "make a plan: this controller makes %d already: ask again later", maxPlans)
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// reachedTodoLimit tells whether the plan has as much to do as one call does, and counts one more.
func (p *planner) reachedTodoLimit() bool {
	if p.listed[stepTodo] < maxTodo && p.dryRuns < maxDryRuns {
		return false
	}
	p.unlisted[stepTodo]++
	return true
}

// reachedListLimit tells whether enough steps of a state are listed, and counts one more.
func (p *planner) reachedListLimit(state string) bool {
	if p.listed[state] < maxListed {
		return false
	}
	p.unlisted[state]++
	return true
}

// response is the plan as the API shows it.
func (p *planner) response() *adminpb.PlanResponse {
	out := &adminpb.PlanResponse{
		Index: p.index, Verb: p.req.GetVerb(), Node: p.req.GetNode(), HostId: string(p.host), Volume: p.req.GetVolume(),
	}
	count := map[string]int{}
	for state, n := range p.unlisted {
		count[state] = n
		out.More += uint64(n)
	}
	for i := range p.steps {
		count[p.steps[i].state]++
		out.Steps = append(out.Steps, p.steps[i].view())
	}
	out.Todo, out.Waiting, out.Blocked = uint64(count[stepTodo]), uint64(count[stepWaiting]), uint64(count[stepBlocked])
	out.Done = out.Todo+out.Waiting+out.Blocked == 0
	out.Summary = fmt.Sprintf("%s %s (host %s): %d to do, %d waiting for others, %d blocked, %d done",
		p.req.GetVerb(), p.req.GetNode(), p.host, out.Todo, out.Waiting, out.Blocked, count[stepDone])
	return out
}

func (t *step) view() *adminpb.PlanStep {
	view := &adminpb.PlanStep{Action: t.action, State: t.state, Node: string(t.node), Detail: t.detail}
	if t.volume != nil {
		view.Volume, view.VolumeName = string(t.volume.ID), t.volume.Name
	}
	return view
}

// groupDigits writes a number with separators.
func groupDigits(n uint64) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
