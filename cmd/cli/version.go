package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/cmd/daemon"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: noMore,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "holdfast", daemon.Version())
			return err
		}}
}
