package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/executor/freeze"
)

// thawCommand is the process that a node starts with every freeze, and that thaws when the node fails (S19).
func thawCommand() *cobra.Command {
	return &cobra.Command{Use: "thaw RECORD", Short: "Thaw a filesystem when its record says so",
		Long: "Thaws the filesystem that a freeze's record names, at the record's deadline or when the freeze is ended. A node\n" +
			"starts it before every freeze, as a process of its own, so that nothing stays frozen whatever becomes of the node.",
		Hidden: true, Args: exactArgs("a record"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := freeze.Thaw(cmd.Context(), args[0], cmd.OutOrStdout()); err != nil {
				return exit.Wrap(exit.Refused, fmt.Errorf("thaw what %s names: %w", args[0], err))
			}
			return nil
		}}
}
