package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

func caCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ca", Short: "Make a cluster's CA and issue certificates for roles", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(caMakeCommand(), caIssueCommand(), caRenewCommand(), caRotateCommand())
	return cmd
}

func caMakeCommand() *cobra.Command {
	var dir, cluster string
	cmd := &cobra.Command{Use: "make", Short: "Make a CA for a new cluster", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" || cluster == "" {
				return exit.Usagef("make a CA: set --ca-dir and --cluster")
			}
			if err := pki.MakeCA(dir, cluster); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "the CA of cluster %s is in %s; keep ca.key away from the hosts\n", cluster, dir)
			return err
		}}
	cmd.Flags().StringVar(&dir, "ca-dir", "", "`folder` for the CA's certificate and key; it is made with mode 0700")
	cmd.Flags().StringVar(&cluster, "cluster", "", "`name` of the cluster, in every certificate")
	return cmd
}

func caIssueCommand() *cobra.Command {
	var caDir, out, role, name string
	var validity time.Duration
	cmd := &cobra.Command{Use: "issue", Short: "Issue a certificate for one role and name", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if caDir == "" || out == "" || role == "" || name == "" {
				return exit.Usagef("issue a certificate: set --ca-dir, --out, --role and --name")
			}
			files, err := pki.Issue(caDir, out, pki.Identity{Role: pki.Role(role), Name: name}, validity)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "--cert %s --key %s --ca %s\n", files.Cert, files.Key, files.CA)
			return err
		}}
	cmd.Flags().StringVar(&caDir, "ca-dir", "", "`folder` that `holdfast ca make` made")
	cmd.Flags().StringVar(&out, "out", "", "`folder` for the files; it is made with mode 0700")
	cmd.Flags().StringVar(&role, "role", "", "`role`: controller, node, admin, operator or viewer")
	cmd.Flags().StringVar(&name, "name", "", "`name`: the controller's, the node's id, or the operator's")
	cmd.Flags().DurationVar(&validity, "validity", 90*24*time.Hour, "how long it is good; a running process takes up a renewed one")
	return cmd
}
