package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

func volumesCommand() *cobra.Command {
	list := func(use string) *cobra.Command {
		return volumesList(use, "List the volumes, in all phases", func(w io.Writer, format string, resp *adminpb.VolumesResponse) error {
			return admin.Print(w, format, resp)
		})
	}
	cmd := list("volumes [ID|NAME]")
	cmd.AddCommand(list("list [ID|NAME]"),
		volumesList("replicas [ID|NAME]", "List the replicas of replicated volumes: what the log says of each, and what its host saw", admin.PrintReplicas),
		volumesList("replication [ID|NAME]", "List the replication of volumes between two sites: role, status, and who has to act", admin.PrintVolumeReplication),
		forceCommand(), keptCommand(), manifestCommand(), restoreHeaderCommand(), atRiskCommand(), toleranceCommand())
	cmd.AddCommand(replicationCommands(ofVolume)...)
	return cmd
}

func volumesList(use, short string, show func(io.Writer, string, *adminpb.VolumesResponse) error) *cobra.Command {
	req := &adminpb.VolumesRequest{}
	cmd := apiCommand(use, short, maxOneArg, readTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				req.Volume = args[0]
			}
			resp, err := client.Volumes(ctx, req)
			if err != nil {
				return callError("list the volumes", err)
			}
			return show(cmd.OutOrStdout(), c.output, resp)
		})
	cmd.Flags().StringVar(&req.Node, "node", "", "only volumes that `node` keeps, has published or must tear down")
	cmd.Flags().BoolVar(&req.Stale, "stale", false, staleHelp)
	return cmd
}
