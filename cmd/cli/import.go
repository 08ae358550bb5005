package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// importCommand groups the commands that take in what hosts have already.
func importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "import", Short: "Make volumes of logical volumes that hosts have already, and give them back", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(importLVCommand(), importDRBDCommand(), forgetImportCommand())
	return cmd
}

func importLVCommand() *cobra.Command {
	p := &planVerb{req: &adminpb.PlanRequest{Verb: "import-lv"}, ofDevice: true}
	cmd := apiCommand("lv", "Make a volume of a thin logical volume, without copying or formatting it", noArgs, importTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, _ []string) error {
			if p.req.GetNode() == "" || p.req.GetDevice() == "" || p.req.GetVolume() == "" {
				return exit.Usagef("say what is imported with --node, --lv and --name")
			}
			return p.run(ctx, c, client, cmd)
		})
	cmd.Long = "Makes a volume of a thin logical volume in a pool of Holdfast's, with all that is on it. The plan shows what the host\n" +
		"says of it: its UUID, its size, what is on it, who uses it. It is refused while it is open or mounted, where anything\n" +
		"but one ext4 or xfs is on it, unless --block is said, and where it is a part of something else, such as a physical\n" +
		"volume, a RAID, a swap area or a DRBD resource. Carried out, the log says first that the volume has its content: no\n" +
		"filesystem is ever made on it. Then its host renames and tags it. The orchestrator's own record of it names the\n" +
		"volume's id; see \"Import\" in OPERATIONS.md."
	flags := cmd.Flags()
	flags.StringVar(&p.req.Node, "node", "", "the `node` that has it")
	flags.StringVar(&p.req.Pool, "pool", "", "the pool's `id`, where logical volumes of two have the name")
	flags.StringVar(&p.req.Device, "lv", "", "the logical volume's `name`, also as VG/NAME")
	flags.StringVar(&p.req.Volume, "name", "", "the `name` of the volume that it becomes")
	flags.BoolVar(&p.req.Block, "block", false, "the volume is used raw for ever, whatever is on it")
	flags.StringVar(&p.req.DeviceId, "device-id", "", "the logical volume's `UUID`, as the plan shows it")
	p.planFlags(cmd)
	p.waitFlag(cmd)
	return cmd
}

func importDRBDCommand() *cobra.Command {
	p := &planVerb{req: &adminpb.PlanRequest{Verb: "import-drbd"}, ofDevice: true}
	cmd := apiCommand("drbd NAME", "Make a volume of the replicas of a DRBD resource, without copying or formatting it", exactArgs("the name of the volume that it becomes"), importTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			if n := len(p.req.GetReplicas()); n < 1 || n > 2 {
				return exit.Usagef("name one replica or two with --replica NODE:LV, not %d: others of the resource stay as they are", n)
			}
			p.req.Volume = args[0]
			return p.run(ctx, c, client, cmd)
		})
	cmd.Long = "Makes a replicated volume of the two replicas of a DRBD resource, of DRBD 8.4 or of DRBD 9 and LINSTOR, or a plain volume\n" +
		"of one of them. The resource is down on the hosts that are named. The plan shows each replica's metadata and what is on\n" +
		"it. Two are taken in only if their metadata prove that both have the same: one generation, neither went on alone, both\n" +
		"up to date, no block out of sync. Carried out, each host looks once more, renames its logical volume, and when both\n" +
		"have, keeps a dump of the metadata and replaces them. Nothing is copied. See \"Import\" in OPERATIONS.md."
	flags := cmd.Flags()
	flags.StringArrayVar(&p.req.Replicas, "replica", nil, "a replica as `NODE:LV`; once or twice")
	flags.BoolVar(&p.req.Block, "block", false, "the volume is used raw for ever, whatever is on it")
	flags.StringVar(&p.req.DeviceId, "device-id", "", "the logical volumes' `UUIDs`, as the plan shows them")
	p.planFlags(cmd)
	p.waitFlag(cmd)
	return cmd
}

func forgetImportCommand() *cobra.Command {
	p := &planVerb{req: &adminpb.PlanRequest{Verb: "forget-import"}}
	cmd := apiCommand("forget ID|NAME", "Give an imported logical volume back, with its content and its former name", exactArgs("a volume's id or name"), changeTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			p.req.Volume = args[0]
			return p.run(ctx, c, client, cmd)
		})
	cmd.Long = "Ends an imported volume, and keeps its device: its host gives it its former name back. It is refused while the volume is\n" +
		"published, replicated, in a volume group or the source of a copy. What was written to it since the import stays."
	p.planFlags(cmd)
	p.waitFlag(cmd)
	return cmd
}
