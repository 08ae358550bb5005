package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

func volumeGroupsCommand() *cobra.Command {
	list := func(use string) *cobra.Command {
		return volumeGroupsList(use, "List the volume groups of all sites", func(w io.Writer, format string, resp *adminpb.VolumeGroupsResponse) error {
			return admin.Print(w, format, resp)
		})
	}
	cmd := list("groups [ID|NAME]")
	cmd.AddCommand(list("list [ID|NAME]"),
		volumeGroupsList("replication [ID|NAME]", "List the replication of groups between two sites: role, status, and who has to act", admin.PrintGroupReplication))
	cmd.AddCommand(replicationCommands(ofGroup)...)
	return cmd
}

func volumeGroupsList(use, short string, show func(io.Writer, string, *adminpb.VolumeGroupsResponse) error) *cobra.Command {
	req := &adminpb.VolumeGroupsRequest{}
	cmd := apiCommand(use, short, maxOneArg, readTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				req.Group = args[0]
			}
			resp, err := client.VolumeGroups(ctx, req)
			if err != nil {
				return callError("list the volume groups", err)
			}
			return show(cmd.OutOrStdout(), c.output, resp)
		})
	cmd.Flags().BoolVar(&req.Stale, "stale", false, staleHelp)
	return cmd
}
