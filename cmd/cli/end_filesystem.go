package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/executor/mount"
)

// endFilesystemCommand is the helper process that a node starts for the filesystem of a former primary
// before the writes that DRBD holds back fail (S9).
func endFilesystemCommand() *cobra.Command {
	return &cobra.Command{Use: "end-filesystem PATH DEVICE", Short: "Shut down a filesystem that must not sync any more",
		Long: "Shuts down the ext4 or xfs of the device, by its number, that is mounted on the path: what was not synced is lost, and\n" +
			"everybody who uses it gets errors until it is unmounted. A node starts it as a process of its own, as it may have to\n" +
			"wait for the device.",
		Hidden: true, Args: exactArgs("a path", "a device's number"),
		RunE: func(cmd *cobra.Command, args []string) error {
			device, err := strconv.ParseUint(args[1], 10, 64)
			if err != nil {
				return exit.Usagef("%q is not a device's number", args[1])
			}
			if err := mount.EndFilesystem(args[0], device, cmd.OutOrStdout()); err != nil {
				return exit.Wrap(exit.Refused, fmt.Errorf("shut down the filesystem on %s: %w", args[0], err))
			}
			return nil
		}}
}
