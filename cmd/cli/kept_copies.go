package cli

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// keptCommand groups the commands about kept copies.
func keptCommand() *cobra.Command {
	cmd := keptList("kept [VOLUME]")
	cmd.AddCommand(keptList("list [VOLUME]"), removeKeptCommand())
	return cmd
}

func keptList(use string) *cobra.Command {
	req := &adminpb.SnapshotsRequest{Kept: true}
	cmd := listCommand(use, "List the copies that hosts keep of what a replica had that lost", maxOneArg, admin.KeptCopyList,
		func(ctx context.Context, _ *connection, client *admin.Client, view listing.View, args []string) (proto.Message, error) {
			req.Source, req.Node = argOrNone(args), onlyNode(view)
			resp, err := client.Snapshots(ctx, req)
			return listed("list the kept copies", resp, err)
		})
	cmd.Long = "Lists what hosts keep of replicas that lost: before such a replica is synchronised from the other one, its host keeps\n" +
		"what it had, in a snapshot of its pool. It ends by `remove`, with its volume, or by itself: --kept-retention after all\n" +
		"replicas of the volume were up to date (SUPERSEDED), or when its host loses again. A volume can be made of it, as of\n" +
		"a snapshot, by its id. Of a volume that is replicated between sites, what a whole replica had before a resynchronisation\n" +
		"is kept too (`before resync`), until both replicas are up to date."
	cmd.Flags().BoolVar(&req.Stale, "stale", false, staleHelp)
	return cmd
}

func removeKeptCommand() *cobra.Command {
	p := &planVerb{req: &adminpb.PlanRequest{Verb: "remove-kept"}}
	cmd := apiCommand("remove VOLUME|ID NODE", "Remove what a host keeps of a replica that lost", exactArgs("a volume's or a kept copy's id", "a node's id"), changeTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			p.req.Volume, p.req.Node = args[0], args[1]
			return p.run(ctx, c, client, cmd)
		})
	cmd.Long = "Removes the copies that a host keeps of what its replica of a volume had when it lost, or one of them by its id. What is\n" +
		"in it and not in the other replica is lost then: take what you need first. Its host removes it as soon as it can be asked."
	p.planFlags(cmd)
	p.waitFlag(cmd)
	return cmd
}
