package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

func snapshotsCommand() *cobra.Command {
	cmd := snapshotsList("snapshots [ID|NAME]")
	cmd.AddCommand(snapshotsList("list [ID|NAME]"), groupsCommand())
	return cmd
}

func snapshotsList(use string) *cobra.Command {
	req := &adminpb.SnapshotsRequest{}
	cmd := apiCommand(use, "List the snapshots, in all phases, or the groups of them", maxOneArg, readTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				req.Snapshot = args[0]
			}
			resp, err := client.Snapshots(ctx, req)
			if err != nil {
				return callError("list the snapshots", err)
			}
			return admin.Print(cmd.OutOrStdout(), c.output, resp)
		})
	cmd.Flags().StringVar(&req.Source, "source", "", "only snapshots of this volume, by `id`")
	cmd.Flags().StringVar(&req.Node, "node", "", "only snapshots that `node` keeps")
	cmd.Flags().BoolVar(&req.Stale, "stale", false, staleHelp)
	return cmd
}

func groupsCommand() *cobra.Command {
	req := &adminpb.GroupSnapshotsRequest{}
	cmd := apiCommand("groups [ID|NAME]", "List the group snapshots, in all phases", maxOneArg, readTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				req.Group = args[0]
			}
			resp, err := client.GroupSnapshots(ctx, req)
			if err != nil {
				return callError("list the group snapshots", err)
			}
			return admin.Print(cmd.OutOrStdout(), c.output, resp)
		})
	cmd.Flags().BoolVar(&req.Stale, "stale", false, staleHelp)
	return cmd
}
