package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/csi/mounthelper"
)

// mountsCommand groups the commands about what this host mounts.
func mountsCommand() *cobra.Command {
	cmd := mountsOf("mounts", "List what this host mounts without an orchestrator; grow it, and give back what is not mounted any more", noArgs, listMounts)
	cmd.AddCommand(mountsOf("list", "List what this host mounts without an orchestrator", noArgs, listMounts), growCommand(), releaseCommand())
	return cmd
}

// mountsOf makes a command about this host's mounts.
func mountsOf(use, short string, args cobra.PositionalArgs, run func(context.Context, *mounthelper.Helper, *cobra.Command, []string) error) *cobra.Command {
	m := &hostMounts{}
	return m.command(use, short, args, run)
}

func (m *hostMounts) command(use, short string, args cobra.PositionalArgs, run func(context.Context, *mounthelper.Helper, *cobra.Command, []string) error) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			helper, closing, err := m.open(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer closing()
			return run(cmd.Context(), helper, cmd, args)
		}}
	m.add(cmd)
	return cmd
}

func listMounts(_ context.Context, helper *mounthelper.Helper, cmd *cobra.Command, _ []string) error {
	all, err := helper.List()
	for _, record := range all {
		state := "not mounted"
		if mounted, failed := helper.Table.IsMounted(record.Target); failed != nil {
			err = errors.Join(err, failed)
		} else if mounted {
			state = "mounted"
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s %s on %s: %s\n", record.ID, listing.OneLine(record.Name), record.Target, state)
	}
	return exit.Wrap(exit.Refused, err)
}

func growCommand() *cobra.Command {
	cmd := mountsOf("grow PATH", "Make a mounted filesystem as large as its volume", exactArgs("a path"),
		func(ctx context.Context, helper *mounthelper.Helper, _ *cobra.Command, args []string) error {
			target, err := absoluteTarget(args[0])
			if err != nil {
				return err
			}
			return callError("grow "+target, helper.Grow(ctx, target))
		})
	cmd.Long = "Makes the filesystem that is mounted as large as its volume, after `holdfast volumes expand`. What has this size is done."
	return cmd
}

func releaseCommand() *cobra.Command {
	var yes bool
	m := &hostMounts{}
	cmd := m.command("release", "Give back the volumes that are not mounted here any more", noArgs,
		func(ctx context.Context, helper *mounthelper.Helper, cmd *cobra.Command, _ []string) error {
			if !yes {
				return planRelease(helper, cmd)
			}
			released, err := helper.Release(ctx)
			for _, record := range released {
				fmt.Fprintf(cmd.OutOrStdout(), "%s %s was given back\n", record.ID, listing.OneLine(record.Name))
			}
			return callError("give back volumes", err)
		})
	cmd.Long = "Unstages what this host mounted and does not mount any more, as after a boot, an unmount without the helper or one\n" +
		"without controllers, and ends its publication to this host, so that another one may use it. What is mounted stays.\n" +
		"holdfast-mounts.service does this at each boot, before the mounts of fstab."
	reasonFlag(cmd, &m.reason)
	cmd.Flags().BoolVar(&yes, "yes", false, "carry it out; without it, it is only shown what would be")
	return cmd
}

func planRelease(helper *mounthelper.Helper, cmd *cobra.Command) error {
	unused, err := helper.Unused()
	for _, record := range unused {
		fmt.Fprintf(cmd.OutOrStdout(), "%s %s, which was on %s, would be given back\n", record.ID, listing.OneLine(record.Name), record.Target)
	}
	if len(unused) > 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was changed: the same command with --yes carries this out")
	}
	return exit.Wrap(exit.Refused, err)
}
