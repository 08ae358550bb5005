package cli

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

func volumeGroupsCommand() *cobra.Command {
	list := func(use string) *cobra.Command {
		return volumeGroupsList(use, "List the volume groups of all sites", admin.VolumeGroupList)
	}
	cmd := list("groups [ID|NAME]")
	cmd.AddCommand(list("list [ID|NAME]"),
		volumeGroupsList("replication [ID|NAME]", "List the replication of groups between two sites: role, status, and who has to act", admin.GroupReplicationList))
	cmd.AddCommand(replicationCommands(ofGroup)...)
	return cmd
}

func volumeGroupsList(use, short string, list listing.Lister) *cobra.Command {
	req := &adminpb.VolumeGroupsRequest{}
	cmd := listCommand(use, short, maxOneArg, list,
		func(ctx context.Context, _ *connection, client *admin.Client, _ listing.View, args []string) (proto.Message, error) {
			req.Group = argOrNone(args)
			resp, err := client.VolumeGroups(ctx, req)
			return listed("list the volume groups", resp, err)
		})
	cmd.Flags().BoolVar(&req.Stale, "stale", false, staleHelp)
	return cmd
}
