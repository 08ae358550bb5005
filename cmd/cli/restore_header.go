package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

func restoreHeaderCommand() *cobra.Command {
	p := &planVerb{req: &adminpb.PlanRequest{Verb: "restore-header"}}
	cmd := apiCommand("restore-header VOLUME", "Have a host restore the LUKS header of a volume from its backup", exactArgs("a volume's id or name"), changeTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			p.req.Volume = args[0]
			return p.run(ctx, c, client, cmd)
		})
	cmd.Long = "Records that a host writes its backup of an encrypted volume's LUKS header onto the device where the header is missing. Each\n" +
		"host that opens a volume has such a backup. It is written when the volume is staged on that node the next time, only\n" +
		"if it is of the header that the log knows, and never over a header that is there. Nothing is ever formatted."
	p.planFlags(cmd)
	cmd.Flags().StringVar(&p.req.Node, "node", "", "the `node` whose backup is taken; without it, the one where the volume is published, or another that has a backup")
	p.waitFlag(cmd)
	return cmd
}
