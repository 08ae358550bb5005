package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/executor/freeze"
)

// thawCommand is the process that the node starts for each freeze (S19). It is
// hidden: run by hand it is of no use, a node that starts thaws what was left.
func thawCommand() *cobra.Command {
	var record string
	cmd := &cobra.Command{
		Use: "thaw", Short: "Thaw a frozen filesystem at its deadline", Hidden: true, Args: cobra.NoArgs,
		Long: "The node starts this for each freeze. It thaws at the deadline in the record, at once when it is\n" +
			"ended with SIGTERM, and ends by itself when the record is removed.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return freeze.Thaw(cmd.Context(), record, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&record, "record", "", "file that says what is frozen and until when")
	if err := cmd.MarkFlagRequired("record"); err != nil {
		panic(err) // the flag was defined just above
	}
	return cmd
}
