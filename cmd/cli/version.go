package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/cmd/daemon"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version, the feature levels and the specifications", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), daemon.Description())
			return err
		}}
}
