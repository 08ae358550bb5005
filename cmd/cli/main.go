// Package cli is the holdfast command line: its sub-commands, the sources of their flags, and how the
// command ends.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/cmd/config"
	"github.com/holdfast-storage/holdfast/cmd/controller"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/cmd/kube"
	"github.com/holdfast-storage/holdfast/cmd/node"
)

// Main runs the command line and returns the exit code. The first SIGINT or SIGTERM stops the command
// gracefully; a second one ends the process at once.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	context.AfterFunc(ctx, cancel) // restores the signals' default effect
	root := Root()
	nameAsPlugin(root)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	executed, err := execute(ctx, root, args)
	if line := exit.Line(err); line != "" {
		fmt.Fprintf(stderr, "%s: %s\n", executed.CommandPath(), line)
	}
	if executed.Name() == fencePeerName {
		return fencePeerExitCode(exit.Code(err))
	}
	if isHelper(executed) {
		return helperExitCode(exit.Code(err))
	}
	return exit.Code(err)
}

// execute runs the command that the arguments name. An unknown command is reported before the flags are
// parsed, because flags belong to a command.
func execute(ctx context.Context, root *cobra.Command, args []string) (*cobra.Command, error) {
	root.InitDefaultHelpCmd()
	setBuiltinArgs(root)
	if isCompletion(args) {
		addCompletion(root)
	}
	parent, rest, err := root.Find(args)
	if err == nil && parent.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && !strings.HasPrefix(rest[0], "__") {
		if err := parent.ValidateArgs(rest[:1]); err != nil {
			return parent, err
		}
	}
	return root.ExecuteContextC(ctx)
}

// setBuiltinArgs makes the commands that cobra adds refuse wrong arguments as ours do.
func setBuiltinArgs(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = helpTopicArgs
		case "completion":
			cmd.Args = noArgs
			for _, shell := range cmd.Commands() {
				shell.Args = noArgs
			}
		}
	}
}

// helpTopicArgs accepts the names of a command, for help about it.
func helpTopicArgs(cmd *cobra.Command, args []string) error {
	found, rest, err := cmd.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return unknownCommand(found, args[len(args)-max(1, len(rest))])
	}
	return nil
}

// unknownCommand is the error for an unknown command; it suggests similar names.
func unknownCommand(parent *cobra.Command, name string) error {
	parent.SuggestionsMinimumDistance = 2
	if similar := parent.SuggestionsFor(name); len(similar) > 0 {
		return exit.Usagef("there is no command %q; did you mean %s? See `%s --help`", name, strings.Join(similar, " or "), parent.CommandPath())
	}
	return exit.Usagef("there is no command %q; see `%s --help`", name, parent.CommandPath())
}

// Root returns the holdfast command with all sub-commands.
func Root() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "A storage control plane whose memory is a replicated log",
		Long: "Holdfast serves CSI from a replicated log. The daemons are `controller` and `node`; `dev` runs a whole\n" +
			"cluster on this host; the other commands are for operators.\n\n" +
			"Every flag can also be set in the environment: --data-dir is HOLDFAST_DATA_DIR; those that sort, select and watch cannot.\n" +
			"Exit codes: 0 done, 1 the answer is no, 2 usage, 3 unavailable.",
		Args:          noArgs,
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: fillFlags,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exit.Usagef("%w; see `%s --help`", err, cmd.CommandPath())
	})
	root.AddCommand(
		controller.Command(),
		node.Command(),
		kube.InitCommand(),
		kube.LoopCommand(),
		devCommand(),
		caCommand(),
		versionCommand(),
		statusCommand(),
		volumesCommand(),
		volumeGroupsCommand(),
		snapshotsCommand(),
		thawCommand(),
		endFilesystemCommand(),
		fencePeerCommand(),
		installHandlerCommand(),
		nodesCommand(),
		membersCommand(),
		certsCommand(),
		tokensCommand(),
		operationsCommand(),
		historyCommand(),
		auditCommand(),
		certifyCommand(),
		certifyBlocksCommand(),
		adoptClusterCommand(),
		importCommand(),
		doctorCommand(),
		bundleCommand(),
		stateCommand(),
		upgradeCommand(),
		logCommand(),
		backupCommand(),
		restoreCommand(),
		recoverCommand(),
		mountCommand(), umountCommand(), mountsCommand(),
		whyCommand(),
	)
	root.InitDefaultCompletionCmd()
	addExamples(root)
	return root
}

// fillFlags sets flags that are not on the command line from the environment and the file.
func fillFlags(cmd *cobra.Command, _ []string) error {
	return exit.Wrap(exit.Usage, config.Fill(cmd.Flags(), os.LookupEnv))
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		return unknownCommand(cmd, args[0])
	}
	return exit.Usagef("unexpected argument %q; see `%s --help`", args[0], cmd.CommandPath())
}

// exactArgs requires exactly the named arguments.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return exit.Usagef("it takes %s; see `%s --help`", strings.Join(names, " and "), cmd.CommandPath())
		}
		return nil
	}
}

// maxOneArg accepts one argument or none.
func maxOneArg(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return exit.Usagef("unexpected argument %q; see `%s --help`", args[1], cmd.CommandPath())
	}
	return nil
}
