package cli

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/cmd/config"
	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/dev"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// connection is how an operator's command connects to the controllers, and in which format it prints.
type connection struct {
	dir       string
	endpoints []string
	files     pki.Files
	output    string
	timeout   time.Duration
	bundle    string // file that is read instead, of commands that can
	kube      kubeConnection
}

// addFlags adds the flags that all commands for operators have.
func (c *connection) addFlags(cmd *cobra.Command, timeout time.Duration) {
	c.addFlagsTo(cmd.PersistentFlags(), timeout)
}

func (c *connection) addFlagsTo(flags *pflag.FlagSet, timeout time.Duration) {
	flags.StringVar(&c.dir, "dir", "", "`folder` of a developer's cluster: its controllers and its certificate are used")
	flags.StringSliceVar(&c.endpoints, "endpoints", nil, "API `addresses` of the controllers, host:port; the first that answers is used")
	daemon.AddTLSFlags(flags, &c.files)
	c.kube.addFlagsTo(flags)
	c.addOutputFlag(flags)
	flags.DurationVar(&c.timeout, "timeout", timeout, "how long one controller may take before the next is asked")
}

func (c *connection) addOutputFlag(flags *pflag.FlagSet) {
	flags.StringVarP(&c.output, "output", "o", "table", "`format` of the answer: table, wide (all columns), json or yaml")
}

// client makes a client from the flags, which is good until ctx ends. The error names the flag that is wrong.
func (c *connection) client(ctx context.Context) (*admin.Client, error) {
	client, _, err := c.open(ctx)
	return client, err
}

// open is client, with the credentials that it has.
func (c *connection) open(ctx context.Context) (*admin.Client, *pki.Credentials, error) {
	if err := admin.CheckFormat(c.output); err != nil {
		return nil, nil, exit.Wrap(exit.Usage, err)
	}
	endpoints, files, err := c.resolve(ctx)
	if err != nil {
		return nil, nil, err
	}
	creds, err := pki.Load(files)
	if err != nil {
		return nil, nil, exit.Usagef("load the certificate: %w", err)
	}
	client := admin.NewClient(endpoints, creds.Client(pki.Controller))
	client.Timeout = c.timeout
	return client, creds, nil
}

func (c *connection) resolve(ctx context.Context) ([]string, pki.Files, error) {
	switch {
	case c.dir != "" && len(c.endpoints) > 0:
		return nil, pki.Files{}, exit.Usagef("choose the cluster: --dir and --endpoints exclude each other")
	case c.dir != "":
		cluster, err := dev.ReadCluster(c.dir)
		if err != nil {
			return nil, pki.Files{}, exit.Wrap(exit.Unavailable, err)
		}
		return cluster.Endpoints(), dev.AdminFiles(c.dir), nil
	case len(c.endpoints) == 0 && c.kube.wanted():
		return c.kube.connect(ctx, c.files)
	case len(c.endpoints) == 0:
		return nil, pki.Files{}, exit.Usagef("choose the cluster: set --dir, --kube, or --endpoints with --cert, --key and --ca")
	case c.files.Cert == "" || c.files.Key == "" || c.files.CA == "":
		return nil, pki.Files{}, exit.Usagef("load the certificate: --endpoints needs --cert, --key and --ca; `holdfast ca issue --role admin` makes them")
	}
	return c.endpoints, c.files, nil
}

// offlineCommand makes a command for operators that calls the API, or reads a bundle of what it answered; at is the index
// whose state is read of a bundle, nil the newest.
func offlineCommand(use, short string, args cobra.PositionalArgs, timeout time.Duration, at *uint64, run func(context.Context, *connection, *admin.Client, *cobra.Command, []string) error) *cobra.Command {
	c := &connection{}
	cmd := &cobra.Command{Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, closing, err := c.clientOrBundle(cmd.Context(), cmd.Flags(), at)
			if err != nil {
				return err
			}
			defer closing()
			return run(cmd.Context(), c, client, cmd, args)
		}}
	c.addFlags(cmd, timeout)
	cmd.Flags().StringVar(&c.bundle, "bundle", "", bundleHelp)
	return cmd
}

// onCommandLine tells whether a flag was given there. Where a daemon runs, its environment sets flags of the same names.
func onCommandLine(flags *pflag.FlagSet, name string) bool {
	_, inEnvironment := os.LookupEnv(config.EnvName(name))
	return flags.Changed(name) && !inEnvironment
}

// clientOrBundle makes a client of the cluster, or of the bundle that --bundle names.
func (c *connection) clientOrBundle(ctx context.Context, flags *pflag.FlagSet, at *uint64) (client *admin.Client, closing func(), err error) {
	index := uint64(0)
	if at != nil {
		index = *at
	}
	if c.bundle != "" {
		return c.offline(flags, index)
	}
	if index != 0 {
		return nil, nil, exit.Usagef("--at is an index of a bundle: give --bundle too")
	}
	client, err = c.client(ctx)
	return client, func() {}, err
}

// apiCommand makes a command for operators that calls the API.
func apiCommand(use, short string, args cobra.PositionalArgs, timeout time.Duration, run func(context.Context, *connection, *admin.Client, *cobra.Command, []string) error) *cobra.Command {
	c := &connection{}
	cmd := &cobra.Command{Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := c.client(cmd.Context())
			if err != nil {
				return err
			}
			return run(cmd.Context(), c, client, cmd, args)
		}}
	c.addFlags(cmd, timeout)
	return cmd
}
