package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/bundle"
	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/dev"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

const (
	// bundleTimeout is for each part of a bundle; the journal may be a gigabyte.
	bundleTimeout  = 10 * time.Minute
	metricsTimeout = 10 * time.Second
	// maxMetrics bounds what is read of one controller's metrics, in bytes.
	maxMetrics = 32 << 20
)

func bundleCommand() *cobra.Command {
	var since time.Duration
	var entries uint64
	var metrics []string
	cmd := apiCommand("bundle FILE", "Write an archive for a bug report", exactArgs("the file to write, .tar.gz or .tar.zst"), bundleTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			o := bundle.Options{Entries: entries, Version: daemon.Version(), Now: time.Now}
			switch {
			case since < 0:
				return exit.Usagef("--since %s is below zero", since)
			case cmd.Flags().Changed("since") && cmd.Flags().Changed("entries"):
				return exit.Usagef("--since and --entries both say how far back the journal goes: give one of the two")
			}
			if since > 0 {
				o.Since = time.Now().Add(-since)
			}
			var err error
			if o.Metrics, err = metricsSources(c, metrics); err != nil {
				return err
			}
			return writeBundle(ctx, client, cmd, args[0], o)
		})
	cmd.Long = "Gathers what the doctor finds, the status, the members, nodes, volumes, operations, groups, snapshots, fences, the\n" +
		"replication between sites, an audit, the whole state, the journal with a state from which it leads there, versions and\n" +
		"metrics into one archive, mode 0600, with a manifest of checksums. No secret is in it: none is in the state. What\n" +
		"could not be gathered is named in the manifest, and the command then exits 1. `doctor`, `history`, `state` and `audit`\n" +
		"read it with --bundle FILE."
	cmd.Flags().DurationVar(&since, "since", 0, "how far the journal goes back, such as 24h; 0: the newest --entries")
	cmd.Flags().Uint64Var(&entries, "entries", 10000, "how many of the newest log `entries` the journal has; more where an earlier state is needed to lead to them")
	cmd.Flags().StringArrayVar(&metrics, "metrics", nil, "a controller's metrics as `NAME=HOST:PORT`, its --metrics-listen; repeatable; with --dir they are known")
	return cmd
}

func writeBundle(ctx context.Context, client *admin.Client, cmd *cobra.Command, path string, o bundle.Options) error {
	if err := bundle.CheckName(path); err != nil {
		return exit.Wrap(exit.Usage, err)
	}
	m, err := bundle.Write(ctx, path, client, o)
	switch {
	case errors.Is(err, bundle.ErrNothing):
		return exit.Unavailablef("write a bundle: %w", err)
	case err != nil:
		return exit.Refusedf("write a bundle: %w", err)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s: %s, the state at index %d, the journal from index %d\n", path, admin.CountOf(len(m.Files), "file"), m.Log.Index, m.Log.From)
	for _, part := range m.Missing {
		fmt.Fprintf(out, "missing: %s: %s\n", part.Name, part.Reason)
	}
	if len(m.Missing) > 0 {
		return exit.Silent(exit.Refused)
	}
	return nil
}

// metricsSources are the controllers' metrics listeners, by name.
func metricsSources(c *connection, given []string) (map[string]func(context.Context, io.Writer) error, error) {
	sources := map[string]func(context.Context, io.Writer) error{}
	for _, text := range given {
		name, address, ok := strings.Cut(text, "=")
		if !ok || name == "" || strings.ContainsAny(name, "/.") || address == "" {
			return nil, exit.Usagef("--metrics %q is not of the form NAME=HOST:PORT", text)
		}
		sources[name] = fetchMetrics(address)
	}
	if c.dir == "" {
		return sources, nil
	}
	cluster, err := dev.ReadCluster(c.dir)
	if err != nil {
		return nil, exit.Wrap(exit.Unavailable, err)
	}
	for _, controller := range cluster.Controllers {
		sources[controller.ID] = fetchMetrics(controller.Metrics)
	}
	return sources, nil
}

func fetchMetrics(address string) func(context.Context, io.Writer) error {
	return func(ctx context.Context, to io.Writer) (err error) {
		ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
		if err != nil {
			return fmt.Errorf("ask %s for metrics: %w", address, err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return fmt.Errorf("ask for metrics: %w", err)
		}
		defer func() { err = cmp.Or(err, resp.Body.Close()) }()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answered %s", address, resp.Status)
		}
		_, err = io.Copy(to, io.LimitReader(resp.Body, maxMetrics))
		return err
	}
}

// bundleHelp is the help of --bundle.
const bundleHelp = "read this `file`, which `holdfast bundle` wrote, instead of asking a cluster"

// offline opens the bundle that a command names.
func (c *connection) offline(flags *pflag.FlagSet, at uint64) (client *admin.Client, closing func(), err error) {
	if onCommandLine(flags, "dir") || onCommandLine(flags, "endpoints") {
		return nil, nil, exit.Usagef("--bundle is read without a cluster: leave out --dir and --endpoints")
	}
	if err := admin.CheckFormat(c.output); err != nil {
		return nil, nil, exit.Wrap(exit.Usage, err)
	}
	b, err := bundle.Open(c.bundle)
	if err != nil {
		return nil, nil, exit.Wrap(exit.Refused, err)
	}
	client, stop := b.Client(at)
	return client, func() {
		stop()
		_ = b.Close() // what was unpacked is in a folder of temporary files
	}, nil
}
