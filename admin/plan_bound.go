package admin

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// The limits of a plan. Its cost does not grow with the number of objects concerned, except that each
// of the node's volumes is read once. Each plan has a copy-on-write fork of the state.
const (
	// maxPlans is how many plans are made concurrently for viewers, and separately for who carries plans out, so
	// that viewers do not delay them.
	maxPlans = 2
	// maxTodo bounds the steps to do of one plan; the next call does the rest.
	maxTodo = 1000
	// maxDryRuns bounds the commands that one plan tries.
	maxDryRuns = 20_000
	// maxListed bounds the listed steps of each other state.
	maxListed = 1000
)

// planTimeout is how long a call waits while maxPlans others are being made.
var planTimeout = 5 * time.Second

// acquirePlan waits until a plan may be made; release must be called when it is made.
func (s *Server) acquirePlan(ctx context.Context) (release func(), err error) {
	plans := s.plans
	if s.isAdmin(ctx) || s.isOperator(ctx) {
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

// reachedTodoLimit tells whether the plan has as many steps to do as one call may do. If so, it
// counts one more as unlisted.
func (p *planner) reachedTodoLimit() bool {
	if p.listed[stepTodo] < maxTodo && p.dryRuns < maxDryRuns {
		return false
	}
	p.unlisted[stepTodo]++
	return true
}

// reachedListLimit tells whether enough steps of a state are listed. If so, it counts one more as
// unlisted.
func (p *planner) reachedListLimit(state string) bool {
	if p.listed[state] < maxListed {
		return false
	}
	p.unlisted[state]++
	return true
}

// response converts the plan to the API's form.
func (p *planner) response() *adminpb.PlanResponse {
	out := &adminpb.PlanResponse{
		Index: p.index, Verb: p.req.GetVerb(), Node: p.req.GetNode(), HostId: string(p.host), Volume: p.req.GetVolume(),
		Group: p.req.GetGroup(), Role: p.role, Incarnation: p.incarnation, Published: p.published, Staged: p.staged, OnlyHere: p.onlyHere, DeviceId: p.device,
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
	out.Summary = fmt.Sprintf("%s %s (%s): %d to do, %d waiting for others, %d blocked, %d done",
		p.req.GetVerb(), p.subject(), p.boundTo(), out.Todo, out.Waiting, out.Blocked, count[stepDone])
	return out
}

// boundTo is what a plan that is carried out must still be of.
func (t *planTarget) boundTo() string {
	if ofReplication(t.req.GetVerb()) {
		return fmt.Sprintf("role %d", t.role)
	}
	if t.req.GetVerb() == adoptCluster {
		return fmt.Sprintf("incarnation %d", t.incarnation)
	}
	return "host " + string(t.host)
}

func (t *step) view() *adminpb.PlanStep {
	view := &adminpb.PlanStep{Action: t.action, State: t.state, Node: string(t.node), Detail: t.detail, Snapshot: t.snapshot, SnapshotName: t.snapshotName}
	if t.volume != nil {
		view.Volume, view.VolumeName = string(t.volume.ID), t.volume.Name
	}
	return view
}

// groupDigits formats a number with thousands separators.
func groupDigits(n uint64) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
