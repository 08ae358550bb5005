package cli

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

func volumesCommand() *cobra.Command {
	list := func(use string) *cobra.Command {
		return volumesList(use, "List the volumes, in all phases", admin.VolumeList)
	}
	cmd := list("volumes [ID|NAME]")
	cmd.AddCommand(list("list [ID|NAME]"),
		volumesList("replicas [ID|NAME]", "List the replicas of replicated volumes: what the log says of each, and what its host saw", admin.ReplicaList),
		volumesList("replication [ID|NAME]", "List the replication of volumes between two sites: role, status, and who has to act", admin.VolumeReplicationList),
		forceCommand(), keptCommand(), manifestCommand(), restoreHeaderCommand(), atRiskCommand(), toleranceCommand(), leaksCommand(), orphansCommand())
	cmd.AddCommand(replicationCommands(ofVolume)...)
	cmd.AddCommand(volumeChangeCommands()...)
	return cmd
}

func volumesList(use, short string, list listing.Lister) *cobra.Command {
	req := &adminpb.VolumesRequest{}
	cmd := listCommand(use, short, maxOneArg, list,
		func(ctx context.Context, c *connection, client *admin.Client, view listing.View, args []string) (proto.Message, error) {
			req.Volume, req.Node = argOrNone(args), onlyNode(view)
			resp, err := client.Volumes(ctx, req)
			if err == nil && c.kube.wanted() {
				err = c.kube.addPods(ctx, resp)
			}
			return listed("list the volumes", resp, err)
		})
	cmd.Flags().BoolVar(&req.Stale, "stale", false, staleHelp)
	return cmd
}
