package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/cmd/node"
	"github.com/holdfast-storage/holdfast/fsm"
)

// volumeVerb changes a volume as an orchestrator would by CSI. It shows what would be done, and does it with --yes.
type volumeVerb struct {
	req *adminpb.VolumeChangeRequest
	yes bool
}

func volumeChangeCommands() []*cobra.Command {
	return []*cobra.Command{createVolumeCommand(), deleteVolumeCommand(), publishVolumeCommand(), unpublishVolumeCommand(), expandVolumeCommand()}
}

func newVolumeVerb(verb string) *volumeVerb {
	return &volumeVerb{req: &adminpb.VolumeChangeRequest{Verb: verb}}
}

func (v *volumeVerb) command(use, short, long, argument string) *cobra.Command {
	cmd := apiCommand(use, short, exactArgs(argument), changeTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			v.req.Volume = args[0]
			return v.run(ctx, c, client, cmd)
		})
	cmd.Long = long
	cmd.Flags().BoolVar(&v.yes, "yes", false, "carry the plan out; without it, it is only shown")
	reasonFlag(cmd, &v.req.Reason)
	cmd.Flags().StringVar(&v.req.Site, "site", "", "`name` of the site whose volume it is, where the cluster has several")
	cmd.Flags().BoolVar(&v.req.EvenIfOrchestrated, "even-if-orchestrated", false, v.orchestratedHelp())
	return cmd
}

func (v *volumeVerb) orchestratedHelp() string {
	if v.req.GetVerb() == "create" {
		return "create it although a volume of an orchestrator that has failed has the name; while that one is good, it is refused"
	}
	return "change it although no operator made it: an orchestrator may rely on it"
}

// unbound: a deletion by name is only shown, since another volume may have the name when it is repeated.
func (v *volumeVerb) unbound() bool {
	return v.yes && v.req.GetVerb() == "delete" && !fsm.VolumeID(v.req.GetVolume()).Valid()
}

func (v *volumeVerb) run(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command) error {
	resp, err := v.call(ctx, client)
	if err != nil {
		return callError(v.req.GetVerb()+" volume "+v.req.GetVolume(), err)
	}
	if err := admin.Print(cmd.OutOrStdout(), c.output, resp); err != nil {
		return err
	}
	switch step := resp.GetSteps()[0]; {
	case step.GetState() == "blocked":
		return exit.Refusedf("%s volume %s: %s", v.req.GetVerb(), v.req.GetVolume(), step.GetDetail())
	case v.unbound() && !resp.GetDone():
		return exit.Usagef("nothing was changed: `holdfast volumes delete %s --yes` carries this out: a name may be another volume's by then", resp.GetVolumeId())
	case !resp.GetDone() && !v.yes && v.req.GetVerb() == "delete":
		fmt.Fprintf(cmd.ErrOrStderr(), "nothing was changed: `holdfast volumes delete %s --yes` carries this out\n", resp.GetVolumeId())
	case !resp.GetDone() && !v.yes:
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was changed: the same command with --yes carries this out")
	}
	return nil
}

func (v *volumeVerb) call(ctx context.Context, client *admin.Client) (resp *adminpb.VolumeChangeResponse, err error) {
	err = client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
		if v.yes && !v.unbound() {
			resp, err = api.ChangeVolume(ctx, v.req)
		} else {
			resp, err = api.PlanVolume(ctx, v.req)
		}
		return err
	})
	return resp, err
}

func createVolumeCommand() *cobra.Command {
	v := newVolumeVerb("create")
	cmd := v.command("create NAME", "Create a volume for a host without an orchestrator",
		"Creates a volume as an orchestrator would by CSI: --parameter is what a StorageClass says. The same command again finds\n"+
			"the volume that has the name; with another size, filesystem or parameter it is refused. An encrypted volume\n"+
			"(--parameter encrypted=true) gets its passphrase where it is mounted, never here.", "a name")
	flags := cmd.Flags()
	flags.Var(node.BytesFlag(&v.req.SizeBytes), "size", "its size in `bytes`; KiB, MiB, GiB and TiB are understood; the source's by default")
	flags.StringToStringVarP(&v.req.Parameters, "parameter", "p", nil, "`key=value` as of a StorageClass, such as replicas=2; repeatable")
	flags.StringVar(&v.req.FsType, "fs", "", "its `filesystem`: ext4 or xfs; ext4 by default")
	flags.BoolVar(&v.req.Block, "block", false, "it is used raw, without a filesystem")
	flags.StringVar(&v.req.Node, "node", "", "`id` of the node that it has to be accessible from")
	flags.StringToStringVar(&v.req.Topology, "topology", nil, "`key=value` of hosts that it has to be accessible from, such as topology.holdfast.storage/zone=a; repeatable")
	flags.StringVar(&v.req.FromSnapshot, "from-snapshot", "", "make it from a snapshot, by its `id` or name")
	flags.StringVar(&v.req.FromVolume, "from-volume", "", "make it from a volume as it is now, by its `id` or name")
	return cmd
}

func deleteVolumeCommand() *cobra.Command {
	return newVolumeVerb("delete").command("delete ID|NAME", "Delete a volume, with what is in it",
		"Deletes a volume that is published nowhere. By its name the plan is shown; with --yes it is named by its id, so that the\n"+
			"command that is repeated never meets another volume that took the name. What is deleted already is done.", "a volume's id or name")
}

func publishVolumeCommand() *cobra.Command {
	v := newVolumeVerb("publish")
	cmd := v.command("publish ID|NAME", "Give a node the right to use a volume",
		"Gives one node the right to use a volume, until unpublish: another one is refused meanwhile. `mount -t holdfast` does\n"+
			"this by itself.", "a volume's id or name")
	v.nodeFlag(cmd, "`id` of the node that may use it")
	cmd.Flags().BoolVar(&v.req.ReadOnly, "readonly", false, "for reading only")
	return cmd
}

func unpublishVolumeCommand() *cobra.Command {
	v := newVolumeVerb("unpublish")
	cmd := v.command("unpublish ID|NAME", "End a node's right to use a volume",
		"Ends a node's right to use a volume. Its host takes the volume down, never by force while something uses it.\n"+
			"`umount` of a volume that is mounted as holdfast does this by itself.", "a volume's id or name")
	v.nodeFlag(cmd, "`id` of the node whose right ends")
	return cmd
}

func (v *volumeVerb) nodeFlag(cmd *cobra.Command, help string) {
	cmd.Flags().StringVar(&v.req.Node, "node", "", help)
}

func expandVolumeCommand() *cobra.Command {
	v := newVolumeVerb("expand")
	cmd := v.command("expand ID|NAME", "Make a volume larger, in use or not",
		"Makes a volume's device larger. A filesystem that is mounted grows by `holdfast mounts grow`, another one when it is\n"+
			"mounted next.", "a volume's id or name")
	cmd.Flags().Var(node.BytesFlag(&v.req.SizeBytes), "size", "its new size in `bytes`; KiB, MiB, GiB and TiB are understood")
	return cmd
}
