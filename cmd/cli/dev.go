package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/cmd/config"
	"github.com/holdfast-storage/holdfast/cmd/dev"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

func devCommand() *cobra.Command {
	o := dev.Options{}
	cmd := &cobra.Command{Use: "dev", Short: "Run a whole cluster on this host", Args: noArgs,
		Long: "Runs controllers and nodes as processes of this host, with everything in one folder, until SIGINT or SIGTERM.\n" +
			"The same command resumes the cluster. It prints a line that starts with `ready` when there is a leader and all\n" +
			"nodes have registered. Where DIR's filesystem shares no blocks, each node's pool is an xfs in a file that can, so that\n" +
			"snapshots and clones do not copy. Mounts of staged volumes outlive it; `holdfast dev clean` removes everything.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			binary, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			o.Binary, o.Stdout, o.Stderr = binary, cmd.OutOrStdout(), cmd.ErrOrStderr()
			return dev.Run(cmd.Context(), o)
		}}
	config.AddFlag(cmd.Flags())
	devFlags(cmd, &o)
	cmd.AddCommand(devStartCommand(), devCleanCommand())
	return cmd
}

func devFlags(cmd *cobra.Command, o *dev.Options) {
	flags := cmd.Flags()
	flags.StringVar(&o.Dir, "dir", "", "`folder` of the cluster")
	flags.IntVar(&o.Controllers, "controllers", 3, "`number` of controllers; fixed at the first start")
	flags.IntVar(&o.Nodes, "nodes", 1, "`number` of nodes; fixed at the first start")
	flags.BoolVar(&o.Supervise, "supervise", true, "restart a process one second after it ended; without it only 'holdfast dev start' starts it again")
	flags.DurationVar(&o.ReadyTimeout, "ready-timeout", time.Minute, "how long the cluster may take to be ready before all is stopped")
	flags.StringArrayVar(&o.AllowRoots, "allow-root", []string{"/"}, "`folder` below which nodes may mount; repeatable")
	flags.StringVar(&o.LogStore, "log-store", "", "Raft log `store` of the controllers: wal or boltdb; theirs by default")
	flags.StringVar(&o.LogLevel, "log-level", "info", "least `level` that is logged: debug, info, warn or error")
	flags.Float64Var(&o.Overcommit, "overcommit", 20, "how many times their capacity the nodes' pools may reserve; more than a node's own default, as what is tried is seldom filled")
	flags.BoolVar(&o.FaultPoints, "enable-fault-points", false, "let the nodes be made to fail on purpose, for tests")
	flags.StringArrayVar(&o.ControllerArgs, "controller-arg", nil, "further `flag` of every controller, like --controller-arg=--snapshot-threshold=64; repeatable")
	flags.StringArrayVar(&o.NodeArgs, "node-arg", nil, "further `flag` of every node; repeatable")
	flags.StringSliceVar(&o.Sites, "sites", nil, "`names` of sites: the first is that of c1 and n1, the second that of c2 and n2, and then from the first again; the same at each start")
	flags.BoolVar(&o.EchoLogs, "echo-logs", false, "write the processes' logs to standard error too")
}

func devStartCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{Use: "start ID", Short: "Start one process of a running cluster again", Args: exactArgs("the id of a process, like c1 or n1"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return exit.Usagef("start %s: --dir is not set: name the folder of the cluster", args[0])
			}
			return dev.StartOne(cmd.Context(), dir, args[0])
		}}
	cmd.Flags().StringVar(&dir, "dir", "", "`folder` of the cluster")
	return cmd
}

func devCleanCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{Use: "clean", Short: "Remove a stopped cluster with its mounts, loop devices and data", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return exit.Usagef("clean up: --dir is not set: name the folder of the cluster")
			}
			return dev.Clean(cmd.Context(), dir)
		}}
	cmd.Flags().StringVar(&dir, "dir", "", "`folder` of the cluster")
	return cmd
}
