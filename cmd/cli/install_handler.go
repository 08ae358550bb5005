package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/executor/drbd"
)

// installHandlerCommand is what a pod runs before the node, so that the kernel finds the fence-peer handler on the host (S13).
func installHandlerCommand() *cobra.Command {
	in := drbd.Installation{Program: "/proc/self/exe"}
	cmd := &cobra.Command{Use: "install-handler", Short: "Put this program where the kernel runs it as DRBD's handler",
		Long: "Copies this program onto the host's own root, which is mounted at --root, at once and after it was run there, and makes\n" +
			"DRBD's main file on a host that has none. It changes nothing where all is there already. It is for pods: on a host,\n" +
			"the package does this.",
		Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, path := range []struct{ flag, value string }{{"root", in.Root}, {"handler", in.Handler}, {"drbd-dir", in.Dir}} {
				if !filepath.IsAbs(path.value) {
					return exit.Usagef("--%s %q is not an absolute path", path.flag, path.value)
				}
			}
			in.Version = daemon.Description()
			done, err := in.Run(cmd.Context())
			for _, did := range done {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), did); err != nil {
					return err
				}
			}
			return exit.Wrap(exit.Refused, err)
		}}
	cmd.Flags().StringVar(&in.Root, "root", "", "`folder` at which the host's root is mounted")
	cmd.Flags().StringVar(&in.Handler, "handler", drbd.HandlerPath, "`path` on the host, the node's --handler")
	cmd.Flags().StringVar(&in.Dir, "drbd-dir", "/etc/drbd.d", "`folder` on the host of DRBD's resource files, the node's --drbd-dir")
	return cmd
}
