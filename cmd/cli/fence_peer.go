package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/executor/fencepeer"
)

// fencePeerName is the command that drbdadm is configured to run as the fence-peer handler.
const fencePeerName = "fence-peer"

// fencePeerCommand is the kernel's fence-peer handler (S6). Its exit codes are not those of the other
// commands: see fencePeerExitCode.
func fencePeerCommand() *cobra.Command {
	var client fencepeer.Client
	var selfTest bool
	var timeout time.Duration
	cmd := &cobra.Command{Use: fencePeerName, Short: "Ask the log whether a replica goes on without its peer",
		Long: "The kernel calls this through drbdadm when a replica lost its peer, or is set primary without it. It asks the node\n" +
			"process until there is a verdict of the log and ends with 4 when the peer is outdated, 6 when this host's replica\n" +
			"is, and 1 when the question is refused.",
		Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client.Out = cmd.ErrOrStderr()
			if !selfTest {
				return exit.Silent(client.FencePeer(os.Getenv))
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if err := client.SelfTest(ctx); err != nil {
				return exit.Wrap(exit.Refused, fmt.Errorf("self-test: %w", err))
			}
			return nil
		}}
	cmd.Flags().StringVar(&client.Socket, "socket", fencepeer.DefaultSocket, "the node process's socket")
	cmd.Flags().BoolVar(&selfTest, "self-test", false, "only see whether the node process answers")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "of the self-test")
	return cmd
}

// fencePeerExitCode replaces an exit code that the kernel would take for a verdict that the log did not
// give by 1: 3, 5 and 7 resume I/O (S6), and a usage error counts as a refusal.
func fencePeerExitCode(code int) int {
	switch code {
	case exit.OK, fencepeer.ExitPeerOutdated, fencepeer.ExitSelfOutdated:
		return code
	}
	return fencepeer.ExitRefused
}
