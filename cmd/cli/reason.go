package cli

import "github.com/spf13/cobra"

const reasonHelp = "why, as `text` of one line for the history"

// reasonFlag adds the flag that all verbs have which change something.
func reasonFlag(cmd *cobra.Command, reason *string) {
	cmd.Flags().StringVar(reason, "reason", "", reasonHelp)
}
