package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// fenceVerb makes a command for a verb with a plan about CIDRs.
func fenceVerb(verb, short, long string) *cobra.Command {
	p := &planVerb{req: &adminpb.PlanRequest{Verb: verb}}
	cmd := apiCommand(verb+" CIDR...", short, someCIDRs, changeTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			p.req.Cidrs = args
			return p.run(ctx, c, client, cmd)
		})
	cmd.Long = long
	cmd.Flags().BoolVar(&p.yes, "yes", false, "carry the plan out, for the hosts that --host-id names; without it, the plan is only shown")
	cmd.Flags().StringVar(&p.req.HostId, "host-id", "", "the hosts that are meant, as the plan shows them: `NODE/HOST-ID` separated by commas, or none")
	reasonFlag(cmd, &p.req.Reason)
	cmd.Flags().StringVar(&p.req.Site, "site", "", "act for the orchestrator of this `site`, whose fences are its own; without it, for the operators")
	p.waitFlag(cmd)
	return cmd
}

func someCIDRs(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return exit.Usagef("name the CIDRs, such as 192.0.2.7/32")
	}
	return nil
}

func fenceCommand() *cobra.Command {
	return fenceVerb("fence", "Fence the hosts that have an address in a CIDR",
		"Ends what the hosts hold that have an address in the CIDRs: publications, and the right to be primary. Their peers are\n"+
			"disconnected from them, so that a volume can go on elsewhere although its host still runs. They get nothing new until\n"+
			"`unfence`. The plan shows the hosts; later only new hosts are added to it. --wait goes on until nothing that they held\n"+
			"can be written by them beside somebody else.")
}

func unfenceCommand() *cobra.Command {
	return fenceVerb("unfence", "End fences, by exactly their CIDRs",
		"Ends the operators' fences of exactly these CIDRs, or with --site those of a site's orchestrator. A host that nothing\n"+
			"fences any more serves again after a new session in which it ended everything that was revoked. No publication returns.")
}

func fencesCommand() *cobra.Command {
	req := &adminpb.FencesRequest{}
	cmd := listCommand("fences", "List the fences, the hosts that they bind, and what they wait for", noArgs, admin.FenceList,
		listOf("list the fences", func(ctx context.Context, api adminpb.AdminClient) (*adminpb.FencesResponse, error) {
			return api.Fences(ctx, req)
		}))
	cmd.Flags().BoolVar(&req.Stale, "stale", false, staleHelp)
	return cmd
}
