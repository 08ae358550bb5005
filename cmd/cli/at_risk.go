package cli

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

func atRiskCommand() *cobra.Command {
	req := &adminpb.AtRiskRequest{}
	f := newListFlags(admin.AtRiskList)
	cmd := f.command("at-risk", "Say what would happen if a host, a zone, a site or a controller stopped now", noArgs, readTimeout,
		func(ctx context.Context, _ *connection, client *admin.Client, _ listing.View, _ []string) (proto.Message, error) {
			resp, err := askAtRisk(ctx, client, req)
			if err != nil {
				return nil, err
			}
			return resp, f.verdict(func() error { return refusedUnless(resp.GetSafe()) })
		})
	cmd.Long = "Says which volumes would be lost (no other host is known to have every write), frozen (their primary runs and its I/O is\n" +
		"suspended), unavailable (until what stopped comes back, or somebody decides) or degraded, which publications would end\n" +
		"and which snapshots are only there, if all that is named stopped at once. Hosts in maintenance count as stopped already.\n" +
		"Exit code 1: something would be lost or frozen, shown or not, or the controllers that are left would be no quorum. With\n" +
		"--watch it goes on whatever would be."
	flags := cmd.Flags()
	flags.StringSliceVar(&req.Nodes, "if-node", nil, "`node` that stops; repeatable, and so are the others")
	flags.StringSliceVar(&req.Zones, "if-zone", nil, "`zone` of which all hosts stop, by their label topology.holdfast.storage/zone")
	flags.StringSliceVar(&req.Sites, "if-site", nil, "`site` of which all hosts and controllers stop")
	flags.StringSliceVar(&req.Members, "if-member", nil, "controller that stops, by its `id`, name or address")
	return cmd
}

func askAtRisk(ctx context.Context, client *admin.Client, req *adminpb.AtRiskRequest) (*adminpb.AtRiskResponse, error) {
	if len(req.GetNodes())+len(req.GetZones())+len(req.GetSites())+len(req.GetMembers()) == 0 {
		return nil, exit.Usagef("say what stops with --if-node, --if-zone, --if-site or --if-member")
	}
	var resp *adminpb.AtRiskResponse
	err := client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
		resp, err = api.AtRisk(ctx, req)
		return err
	})
	if err != nil {
		return nil, callError("say what is at risk", err)
	}
	return resp, nil
}

func refusedUnless(yes bool) error {
	if yes {
		return nil
	}
	return exit.Silent(exit.Refused)
}

func toleranceCommand() *cobra.Command {
	req := &adminpb.ToleranceRequest{}
	cmd := listCommand("tolerance [ID|NAME]", "Say how many hosts, zones, sites and controllers may stop now", maxOneArg, admin.ToleranceList,
		func(ctx context.Context, _ *connection, client *admin.Client, _ listing.View, args []string) (proto.Message, error) {
			req.Volume = argOrNone(args)
			resp, err := client.Tolerance(ctx, req)
			return listed("say what is tolerated", resp, err)
		})
	cmd.Long = "Says of each volume, and of the cluster, how many hosts, zones and sites may stop now, whichever they are: first without\n" +
		"that its content is left without a copy, then without that it cannot be used any more. The cluster's is the least of its\n" +
		"replicated volumes; a volume with one copy tolerates nothing, and is counted beside them."
	return cmd
}

func rebootSafeCommand() *cobra.Command {
	req := &adminpb.RebootSafeRequest{}
	cmd := apiCommand("reboot-safe NODE", "Say whether a host may be rebooted now, and record that it is", exactArgs("a node's id"), changeTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			if req.GetClaim() && req.GetRelease() {
				return exit.Usagef("choose one of --claim and --release")
			}
			req.Node = args[0]
			return rebootSafe(ctx, c, client, cmd, req)
		})
	cmd.Long = "Exit code 0: the host may be rebooted now, and nothing is lost, frozen or made unavailable by it; 1: it may not, and why;\n" +
		"3: nobody can tell. Two hosts of one volume that ask at the same moment are both told yes, unless they claim: --claim\n" +
		"records that the host is in maintenance, where it may be rebooted, and others are refused what would be unsafe beside\n" +
		"it. That ends when the host registers in its next boot, with --release, or with `holdfast nodes undrain`; no time ends it.\n" +
		"--claim and --release are done at once, without --yes."
	flags := cmd.Flags()
	flags.BoolVar(&req.Claim, "claim", false, "record that the host is in maintenance, where it may be rebooted")
	reasonFlag(cmd, &req.Reason)
	flags.BoolVar(&req.Release, "release", false, "record that it is not in maintenance any more")
	flags.BoolVar(&req.AllowUnused, "allow-unused", false, "volumes that are published to no host may be unavailable meanwhile")
	flags.StringVar(&req.HostId, "host-id", "", "the host's random `id`; without it, the host that has the name now")
	return cmd
}

// rebootSafe asks, or claims or releases, and prints the answer. To release is done whatever the host may do then.
func rebootSafe(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, req *adminpb.RebootSafeRequest) error {
	var resp *adminpb.RebootSafeResponse
	err := client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
		if req.GetClaim() || req.GetRelease() {
			resp, err = api.ClaimMaintenance(ctx, req)
		} else {
			resp, err = api.RebootSafe(ctx, req)
		}
		return err
	})
	switch {
	case status.Code(err) == codes.Unimplemented:
		return exit.Unavailablef("ask whether %s may be rebooted: the controller is of an older build: upgrade it", req.GetNode())
	case err != nil:
		return callError("ask whether "+req.GetNode()+" may be rebooted", err)
	}
	if err := admin.Print(cmd.OutOrStdout(), c.output, resp); err != nil {
		return err
	}
	return refusedUnless(resp.GetSafe() || req.GetRelease())
}
