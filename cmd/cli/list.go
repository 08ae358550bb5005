package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/cmd/config"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// minWatchInterval is the shortest --interval: each look is a linearizable read of everything that is listed.
const minWatchInterval = 100 * time.Millisecond

// defaultWatchInterval is how often a watch looks where looking is cheap.
const defaultWatchInterval = 2 * time.Second

// listFlags are how a list is asked for.
type listFlags struct {
	list     listing.Lister
	sortBy   []string
	selected map[string]*[]string // by the flag's name
	watch    bool
	interval time.Duration
}

func newListFlags(list listing.Lister) *listFlags {
	return &listFlags{list: list, selected: map[string]*[]string{}, interval: defaultWatchInterval}
}

// listRead reads what is listed. It may answer something beside an error, which is printed too. The view tells what may be left
// out of the answer already.
type listRead func(ctx context.Context, c *connection, client *admin.Client, view listing.View, args []string) (proto.Message, error)

// listCommand makes a command that lists, sorts, selects and watches.
func listCommand(use, short string, args cobra.PositionalArgs, list listing.Lister, read listRead) *cobra.Command {
	return newListFlags(list).command(use, short, args, readTimeout, read)
}

// command makes a command with these flags that asks a cluster.
func (f *listFlags) command(use, short string, args cobra.PositionalArgs, timeout time.Duration, read listRead) *cobra.Command {
	cmd := apiCommand(use, short, args, timeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			return f.run(ctx, c, cmd, func(view listing.View) (proto.Message, error) { return read(ctx, c, client, view, args) })
		})
	f.add(cmd)
	return cmd
}

// run shows what look answers, once or until the context ends.
func (f *listFlags) run(ctx context.Context, c *connection, cmd *cobra.Command, look func(listing.View) (proto.Message, error)) error {
	view, err := f.view()
	if err != nil {
		return err
	}
	if err := admin.CheckFormat(c.output); err != nil {
		return exit.Wrap(exit.Usage, err)
	}
	once := func() (proto.Message, error) { return look(view) }
	if f.watch {
		return f.watchWith(ctx, c, cmd, view, once)
	}
	return printOnce(cmd, c, f.list, view, once)
}

func printOnce(cmd *cobra.Command, c *connection, list listing.Lister, view listing.View, look func() (proto.Message, error)) error {
	answer, err := look()
	if answer == nil {
		return err
	}
	if err := admin.PrintList(cmd.OutOrStdout(), c.output, list, answer, view); err != nil {
		return err
	}
	return err
}

// add adds the flags. They are of one call: an environment that narrows every list would hide what is wrong, and a daemon's
// has a --pool of its own.
func (f *listFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.sortBy, "sort-by", nil, "`columns` to sort by, the most important first, `-size` for the largest first: "+strings.Join(f.list.ColumnNames(), ", "))
	flags.BoolVarP(&f.watch, "watch", "w", false, "go on until Ctrl-C: on a terminal the list as it is now, else a line for each row that is new, changed or gone")
	flags.DurationVar(&f.interval, "interval", f.interval, "with --watch: how often to look")
	names := []string{"sort-by", "watch", "interval"}
	for _, s := range f.list.Flags() {
		values := &[]string{}
		f.selected[s.Name] = values
		flags.StringArrayVarP(values, s.Name, s.Shorthand, nil, s.Usage+"; a comma is an or, and repeated all must hold")
		names = append(names, s.Name)
	}
	for _, name := range names {
		config.OnlyOnCommandLine(flags, name)
	}
	setValues(flags.Lookup("sort-by"), append(f.list.ColumnNames(), reversedNames(f.list.ColumnNames())...))
	for _, s := range f.list.Flags() {
		setValues(flags.Lookup(s.Name), s.Valid)
	}
}

func reversedNames(columns []string) (names []string) {
	for _, c := range columns {
		names = append(names, "-"+c)
	}
	return names
}

// view is what the flags ask for.
func (f *listFlags) view() (listing.View, error) {
	view := listing.View{SortBy: f.sortBy, Select: map[string][]string{}}
	for name, values := range f.selected {
		if len(*values) > 0 {
			view.Select[name] = *values
		}
	}
	if f.interval < minWatchInterval {
		return view, exit.Usagef("--interval %s is too short: choose %s or more", f.interval, minWatchInterval)
	}
	return view, exit.Wrap(exit.Usage, f.list.Check(view))
}

// onlyNode is the node that all rows must be on, where the server can select by it: one, and no alternatives.
func onlyNode(view listing.View) string {
	if nodes := view.Select["node"]; len(nodes) > 0 && !strings.Contains(nodes[0], ",") {
		return nodes[0]
	}
	return ""
}

// listOf makes a listRead of one call.
func listOf[A proto.Message](what string, call func(context.Context, adminpb.AdminClient) (A, error)) listRead {
	return func(ctx context.Context, _ *connection, client *admin.Client, _ listing.View, _ []string) (proto.Message, error) {
		var answer A
		err := client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
			answer, err = call(ctx, api)
			return err
		})
		return listed(what, answer, err)
	}
}

// listed is an answer, or what was being done and why there is none.
func listed[A proto.Message](what string, answer A, err error) (proto.Message, error) {
	if err != nil {
		return nil, callError(what, err)
	}
	return answer, nil
}

// argOrNone is the only argument, empty without one.
func argOrNone(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
