package cli

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

func snapshotsCommand() *cobra.Command {
	cmd := snapshotsList("snapshots [ID|NAME]")
	cmd.AddCommand(snapshotsList("list [ID|NAME]"), groupsCommand())
	return cmd
}

func snapshotsList(use string) *cobra.Command {
	req := &adminpb.SnapshotsRequest{}
	cmd := listCommand(use, "List the snapshots, in all phases, or the groups of them", maxOneArg, admin.SnapshotList,
		func(ctx context.Context, _ *connection, client *admin.Client, view listing.View, args []string) (proto.Message, error) {
			req.Snapshot, req.Node = argOrNone(args), onlyNode(view)
			resp, err := client.Snapshots(ctx, req)
			return listed("list the snapshots", resp, err)
		})
	cmd.Flags().StringVar(&req.Source, "source", "", "only snapshots of this volume, by `id`")
	cmd.Flags().BoolVar(&req.Stale, "stale", false, staleHelp)
	return cmd
}

func groupsCommand() *cobra.Command {
	req := &adminpb.GroupSnapshotsRequest{}
	cmd := listCommand("groups [ID|NAME]", "List the group snapshots, in all phases", maxOneArg, admin.GroupSnapshotList,
		func(ctx context.Context, _ *connection, client *admin.Client, _ listing.View, args []string) (proto.Message, error) {
			req.Group = argOrNone(args)
			resp, err := client.GroupSnapshots(ctx, req)
			return listed("list the group snapshots", resp, err)
		})
	cmd.Flags().BoolVar(&req.Stale, "stale", false, staleHelp)
	return cmd
}
