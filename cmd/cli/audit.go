package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

const auditTimeout = 2 * time.Minute

func auditCommand() *cobra.Command {
	f := newListFlags(admin.AuditList)
	f.interval = lookInterval
	cmd := f.offlineCommand("audit", "Compare what the hosts hold with what the log says", noArgs, auditTimeout,
		func(ctx context.Context, _ *connection, client *admin.Client, _ listing.View, _ []string) (proto.Message, error) {
			var resp *adminpb.AuditResponse
			err := client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
				resp, err = api.Audit(ctx, &adminpb.AuditRequest{})
				return err
			})
			if err != nil {
				return nil, f.notKnown("audit the cluster", err)
			}
			found := auditError(resp)
			return resp, f.verdict(func() error { return found })
		})
	cmd.Long = "Asks every host what it holds and compares that with the state. Orphans are on a host and not in the state, missing\n" +
		"things the other way round, wrong ones are in both and differ: a mapping of another header or above another\n" +
		"device, a LUKS header that is not the one that was made. Pending ones are work under way or owed by a host that\n" +
		"cannot be asked. Nothing is changed, and nothing is opened.\n" +
		"Exits 1 when there are orphans, missing or wrong things, 3 when a host could not be asked: of all that was found, shown\n" +
		"or not. With --watch it goes on whatever is found."
	return cmd
}

// auditError is the error that an audit ends with, nil when nothing was found.
func auditError(resp *adminpb.AuditResponse) error {
	switch {
	case len(resp.GetOrphans())+len(resp.GetMissing())+len(resp.GetWrong()) > 0:
		return exit.Refusedf("audit the cluster: %d orphans, %d missing, %d wrong", len(resp.GetOrphans()), len(resp.GetMissing()), len(resp.GetWrong()))
	case len(resp.GetUnknown()) > 0:
		first := resp.GetUnknown()[0]
		return exit.Unavailablef("audit the cluster: %d hosts could not be asked, the first is %s: %s", len(resp.GetUnknown()), first.GetNode(), first.GetDetail())
	}
	return nil
}
