package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// waitInterval is the interval at which --wait repeats the call; tests set a shorter one.
var waitInterval = 2 * time.Second

// planVerb is a verb that shows its plan, and carries it out with --yes and the host id that the plan
// shows. When another host has registered under the node's id since, the repeated command does nothing
// to that host. The progress is in the state, so the same command continues where an earlier one ended.
type planVerb struct {
	req  *adminpb.PlanRequest
	yes  bool
	wait bool
	// ofSites: the plan is about the replication between two sites, and bound to the role's index, not to a host.
	ofSites bool
	// ofCluster: the plan is about all hosts, and bound to the cluster's incarnation.
	ofCluster bool
	// ofDevice: the plan is about a device of the host, and bound to that too.
	ofDevice bool
}

// planFlags adds the flags that all verbs with a plan have.
func (p *planVerb) planFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.yes, "yes", false, "carry the plan out, for the host that --host-id names; without it, the plan is only shown")
	cmd.Flags().StringVar(&p.req.HostId, "host-id", "", "the host's random `id`, as the plan shows it; without it, the host that has the name now")
	cmd.Flags().StringVar(&p.req.Reason, "reason", "", reasonHelp)
}

// lostFlags adds the flags of verbs that record a host as lost.
func (p *planVerb) lostFlags(cmd *cobra.Command) {
	p.planFlags(cmd)
	cmd.Flags().BoolVar(&p.req.EvenIfReachable, "even-if-reachable", false, "lose the host although a controller reaches it now")
}

func (p *planVerb) waitFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.wait, "wait", false, "with --yes: go on until nothing is left but what is blocked; to interrupt it is safe")
}

// run shows the plan, or carries it out.
func (p *planVerb) run(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command) error {
	unbound := p.yes && !p.isBound()
	p.yes = p.yes && !unbound
	resp, err := p.call(ctx, client)
	for printed := ""; err == nil && p.yes && p.wait && hasOpenSteps(resp); {
		if progress := progressOf(resp); progress != printed {
			printed = progress
			fmt.Fprintf(cmd.ErrOrStderr(), "%s\n", progress)
		}
		if err = sleepContext(ctx, waitInterval); err == nil {
			resp, err = p.callAgain(ctx, client)
		}
	}
	if err != nil {
		return callError(p.req.GetVerb()+" "+p.subject(), err)
	}
	if err := admin.Print(cmd.OutOrStdout(), c.output, resp); err != nil {
		return err
	}
	if unbound {
		return exit.Usagef("nothing was changed: --yes needs what the plan is for: the same command with %s carries it out", p.binding(resp))
	}
	return p.reportResult(cmd, resp)
}

// callAgain goes on with a plan that is waited for. A drain is done once it cordoned the host: to do that again would undo
// another operator's undrain, which ends the wait instead.
func (p *planVerb) callAgain(ctx context.Context, client *admin.Client) (*adminpb.PlanResponse, error) {
	if p.req.GetVerb() != "drain" {
		return p.call(ctx, client)
	}
	only := planVerb{req: p.req}
	resp, err := only.call(ctx, client)
	if err == nil && stepCount(resp, "todo") > 0 {
		return nil, exit.Refusedf("it was ended by an undrain")
	}
	return resp, err
}

// progressOf is a line for who waits: the summary, and what is waited for first; of a drain, what is left on the host.
func progressOf(resp *adminpb.PlanResponse) string {
	if resp.GetVerb() == "drain" {
		return fmt.Sprintf("drain %s: %s still published, %d of them staged; the last copy of %s is here", resp.GetNode(),
			admin.CountOf(resp.GetPublished(), "volume"), resp.GetStaged(), admin.CountOf(resp.GetOnlyHere(), "volume"))
	}
	for _, s := range resp.GetSteps() {
		if s.GetState() == "waiting" && s.GetDetail() != "" {
			return resp.GetSummary() + "; " + s.GetDetail()
		}
	}
	return resp.GetSummary()
}

// binding are the flags that bind a plan that is carried out to what was shown.
func (p *planVerb) binding(resp *adminpb.PlanResponse) string {
	switch {
	case p.ofCluster:
		return fmt.Sprintf("--incarnation %d", resp.GetIncarnation())
	case p.ofSites:
		return fmt.Sprintf("--role %d", resp.GetRole())
	}
	if p.ofDevice {
		return "--host-id " + resp.GetHostId() + " --device-id " + resp.GetDeviceId()
	}
	return "--host-id " + resp.GetHostId()
}

// isBound tells whether the command names what the plan is for. A role need not be named.
func (p *planVerb) isBound() bool {
	return p.ofSites || p.ofCluster && p.req.GetIncarnation() != 0 || !p.ofCluster && p.req.GetHostId() != "" && (!p.ofDevice || p.req.GetDeviceId() != "")
}

// subject is the node that the verb is about, the volume or the group where no node was named, or the CIDRs.
func (p *planVerb) subject() string {
	if len(p.req.GetCidrs()) > 0 {
		return strings.Join(p.req.GetCidrs(), " ")
	}
	return cmp.Or(p.req.GetNode(), p.req.GetVolume(), p.req.GetGroup())
}

func (p *planVerb) call(ctx context.Context, client *admin.Client) (resp *adminpb.PlanResponse, err error) {
	err = client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
		if p.yes {
			resp, err = api.CarryOut(ctx, p.req)
		} else {
			resp, err = api.Plan(ctx, p.req)
		}
		return err
	})
	return resp, err
}

// reportResult prints what the operator can do next; with blocked steps it returns a refusal.
func (p *planVerb) reportResult(cmd *cobra.Command, resp *adminpb.PlanResponse) error {
	switch {
	case !p.yes && stepCount(resp, "todo") > 0:
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was changed: the same command with "+p.binding(resp)+" --yes carries this out")
	case p.yes && stepCount(resp, "blocked") > 0:
		return exit.Refusedf("%s %s: %d steps are blocked", p.req.GetVerb(), p.subject(), stepCount(resp, "blocked"))
	case p.yes && hasOpenSteps(resp):
		fmt.Fprintln(cmd.ErrOrStderr(), "what is left waits for others: the same command goes on later")
	}
	return nil
}

// hasOpenSteps tells whether steps are in progress, or can be done by the next call.
func hasOpenSteps(resp *adminpb.PlanResponse) bool {
	return stepCount(resp, "waiting")+stepCount(resp, "todo") > 0
}

// stepCount counts the steps in a state, including those that a long plan does not list.
func stepCount(resp *adminpb.PlanResponse, state string) int {
	n := 0
	for _, s := range resp.GetSteps() {
		if s.GetState() == state {
			n++
		}
	}
	all := map[string]uint64{"todo": resp.GetTodo(), "waiting": resp.GetWaiting(), "blocked": resp.GetBlocked()}
	return max(n, int(all[state]))
}

func sleepContext(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
