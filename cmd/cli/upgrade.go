package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

func upgradeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "upgrade", Short: "See which builds a cluster is of, and finish an upgrade", Args: noArgs,
		Long: "A cluster runs at a feature level, which all its controllers and nodes understand. A newer build takes part at the\n" +
			"level that there is, so that processes are upgraded one after the other, and back. When all are upgraded,\n" +
			"`finish` raises the level: what is new can be used, and older builds are refused from then on.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(upgradeStatusCommand(), finishCommand())
	return cmd
}

func upgradeStatusCommand() *cobra.Command {
	req := &adminpb.UpgradeRequest{}
	cmd := listCommand("status", "Show which feature level each controller and node understands", noArgs, admin.UpgradeList,
		func(ctx context.Context, _ *connection, client *admin.Client, _ listing.View, _ []string) (proto.Message, error) {
			const what = "read who understands which feature level"
			resp, err := askUpgrade(ctx, client, what, req, adminpb.AdminClient.UpgradeStatus)
			if err != nil {
				return nil, err
			}
			return resp, nil
		})
	levelFlag(cmd, req)
	return cmd
}

func finishCommand() *cobra.Command {
	req := &adminpb.UpgradeRequest{}
	yes := false
	cmd := apiCommand("finish", "Raise the feature level when all controllers and nodes understand it", noArgs, changeTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, _ []string) error {
			call := adminpb.AdminClient.UpgradeStatus
			if yes {
				call = adminpb.AdminClient.FinishUpgrade
			}
			resp, err := askUpgrade(ctx, client, "finish the upgrade", req, call)
			if err != nil {
				return err
			}
			if err := admin.Print(cmd.OutOrStdout(), c.output, resp); err != nil {
				return err
			}
			switch {
			case !resp.GetDone() && !resp.GetReady():
				return exit.Refusedf("finish the upgrade: not all understand feature level %d; the list says what is missing", resp.GetTarget())
			case !resp.GetDone():
				fmt.Fprintln(cmd.ErrOrStderr(), "nothing was changed: the same command with --yes carries this out")
			}
			return nil
		})
	cmd.Long = "Raises the cluster's feature level when every controller, with a vote or without one, answers that it understands\n" +
		"the level, and every node that is not recorded as lost registered with it. There is no way back: older builds are\n" +
		"refused from then on. Without --yes it shows who understands what, and warns of nodes at a site for which no controller\n" +
		"acts, as sites mean nothing before level 2. Repeated, it changes nothing."
	cmd.Flags().BoolVar(&yes, "yes", false, "raise the level; without it, it is only shown what would be done")
	reasonFlag(cmd, &req.Reason)
	levelFlag(cmd, req)
	return cmd
}

func levelFlag(cmd *cobra.Command, req *adminpb.UpgradeRequest) {
	cmd.Flags().Uint32Var(&req.Level, "level", 0, "the feature `level` to raise to; by default the highest that the controller that answers understands")
}

type upgradeCall func(adminpb.AdminClient, context.Context, *adminpb.UpgradeRequest, ...callOption) (*adminpb.UpgradeResponse, error)

// askUpgrade calls a controller that knows the call: in the middle of an upgrade some controllers may be of an older build that
// does not know it.
func askUpgrade(ctx context.Context, client *admin.Client, what string, req *adminpb.UpgradeRequest, call upgradeCall) (resp *adminpb.UpgradeResponse, err error) {
	err = client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
		resp, err = call(api, ctx, req)
		if grpcstatus.Code(err) == codes.Unimplemented {
			return grpcstatus.Error(codes.Unavailable, "it is of a build without upgrades: upgrade the controllers first")
		}
		return err
	})
	if err != nil {
		return nil, callError(what, err)
	}
	return resp, nil
}
