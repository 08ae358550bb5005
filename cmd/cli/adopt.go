package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// adoptClusterCommand takes in what hosts know after a restore or a recovery.
func adoptClusterCommand() *cobra.Command {
	p := &planVerb{req: &adminpb.PlanRequest{Verb: "adopt-cluster"}, ofCluster: true}
	cmd := apiCommand("adopt", "After a restore: take in what the hosts know and the log does not, and let them act", noArgs, changeTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, _ []string) error {
			return p.run(ctx, c, client, cmd)
		})
	cmd.Long = "After `holdfast restore` or `holdfast recover` the hosts are in adoption mode: they go on with what they do, and\n" +
		"enable and remove nothing. This compares what each of them has, and what the lost log said last of it, with the\n" +
		"restored log, and shows the difference as a plan: volumes and snapshots newer than the backup, what was published,\n" +
		"formatted or expanded since, volumes that were deleted since, and devices of which nothing says what they are,\n" +
		"which stay as they are. With --incarnation N --yes it is carried out for the incarnation that the plan shows: the log\n" +
		"takes in the volumes, then each host acts for it. The same command goes on where it ended."
	flags := cmd.Flags()
	flags.BoolVar(&p.yes, "yes", false, "carry the plan out, for the incarnation that --incarnation names; without it, the plan is only shown")
	flags.Uint64Var(&p.req.Incarnation, "incarnation", 0, "the cluster's incarnation `number`, as the plan shows it")
	flags.BoolVar(&p.req.ForgetMissing, "forget-missing", false, "delete volumes that none of their hosts has, also where no host says that they were deleted")
	flags.StringSliceVar(&p.req.Without, "without", nil, "`nodes` that are not waited for: what they have of volumes is gone for good")
	reasonFlag(cmd, &p.req.Reason)
	p.waitFlag(cmd)
	return cmd
}
