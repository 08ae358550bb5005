package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

func volumeGroupsCommand() *cobra.Command {
	req := &adminpb.VolumeGroupsRequest{}
	cmd := apiCommand("groups [ID|NAME]", "List the volume groups of all sites", maxOneArg, readTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				req.Group = args[0]
			}
			resp, err := client.VolumeGroups(ctx, req)
			if err != nil {
				return callError("list the volume groups", err)
			}
			return admin.Print(cmd.OutOrStdout(), c.output, resp)
		})
	cmd.Flags().BoolVar(&req.Stale, "stale", false, staleHelp)
	return cmd
}
