package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// lookInterval is how often a watch looks where every host is asked to look at itself.
const lookInterval = 30 * time.Second

// offlineCommand makes a command with these flags that asks a cluster, or reads a bundle of what it answered.
func (f *listFlags) offlineCommand(use, short string, args cobra.PositionalArgs, timeout time.Duration, read listRead) *cobra.Command {
	cmd := offlineCommand(use, short, args, timeout, nil,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			return f.run(ctx, c, cmd, func(view listing.View) (proto.Message, error) { return read(ctx, c, client, view, args) })
		})
	cmd.PreRunE = f.refuseWatchedBundle
	f.add(cmd)
	return cmd
}

// refuseWatchedBundle runs before the bundle is opened.
func (f *listFlags) refuseWatchedBundle(cmd *cobra.Command, _ []string) error {
	if bundle, err := cmd.Flags().GetString("bundle"); f.watch && err == nil && bundle != "" {
		return exit.Usagef("--watch looks again and again, and what is in --bundle never changes: leave out one of the two")
	}
	return nil
}

// verdict is what a look ends with that found something: what found says, and in a watch nothing, as it goes on whatever is found.
func (f *listFlags) verdict(found func() error) error {
	if f.watch {
		return nil
	}
	return found()
}

// notKnown is the error of a look that found nothing out: exit.Unavailable, whatever the reason, as scripts must not take it for an
// answer. A watch ends by what is refused, as others do.
func (f *listFlags) notKnown(what string, err error) error {
	if f.watch {
		return callError(what, err)
	}
	return exit.Unavailablef("%s: %s", what, exit.Line(err))
}
