package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// doctorTimeout is above what a host may take to look at itself.
const doctorTimeout = time.Minute

func doctorCommand() *cobra.Command {
	d := &doctor{list: newListFlags(admin.DoctorList)}
	cmd := &cobra.Command{Use: "doctor", Short: "Look for what is not as it should be, in a cluster or on this host", Args: noArgs,
		Long: "Has every member and every reachable host look at itself, adds what the cluster knows, and lists what is not as it\n" +
			"should be, each with a remedy. With --host it looks at this host alone and needs no cluster: kernel modules, commands,\n" +
			"LVM's filter, DRBD, control groups, the clock, how long durable writes take, certificates and free space, for what\n" +
			"--role, --pool-dir, --pool and --replication-address say that it is to run. Nothing is changed: a file that measures\n" +
			"the disk of --data-dir is removed again.\n" +
			"Exits 1 when an error was found, 3 when something could not be found out: of all that was found, shown or not. With\n" +
			"--watch it goes on whatever is found.",
		PreRunE: d.list.refuseWatchedBundle,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return d.list.run(cmd.Context(), &d.connection, cmd, func(view listing.View) (proto.Message, error) { return d.look(cmd, view) })
		}}
	d.addFlags(cmd, doctorTimeout)
	flags := cmd.Flags()
	flags.StringVar(&d.bundle, "bundle", "", bundleHelp)
	flags.BoolVar(&d.onHost, "host", false, "look at this host, without a cluster")
	flags.BoolVar(&d.all, "all", false, "list what is as it should be, too; --severity ok lists that alone")
	d.host.add(flags)
	d.list.interval = lookInterval
	d.list.add(cmd)
	return cmd
}

// doctor is what is looked at, and how it is shown.
type doctor struct {
	connection

	host        hostFlags
	list        *listFlags
	onHost, all bool
}

// look answers what is to be shown. The exit code is of all that was found.
func (d *doctor) look(cmd *cobra.Command, view listing.View) (proto.Message, error) {
	resp, err := d.examine(cmd)
	if err != nil {
		return nil, err
	}
	worst := admin.WorstOf(resp.GetFindings())
	if !d.all && len(view.Select["severity"]) == 0 {
		resp = &adminpb.DoctorResponse{Index: resp.GetIndex(), Findings: admin.WithoutFine(resp.GetFindings())}
	}
	return resp, d.list.verdict(func() error {
		switch worst {
		case admin.SeverityError:
			return exit.Silent(exit.Refused)
		case admin.SeverityUnknown:
			return exit.Silent(exit.Unavailable)
		}
		return nil
	})
}

// examine looks at this host or at the cluster.
func (d *doctor) examine(cmd *cobra.Command) (*adminpb.DoctorResponse, error) {
	if d.onHost && d.bundle != "" {
		return nil, exit.Usagef("--host looks at this host, and --bundle at what was found of a cluster: give one of the two")
	}
	if d.onHost {
		return d.host.examine(cmd.Context(), &d.connection)
	}
	if name := d.host.firstGiven(cmd.Flags()); name != "" {
		return nil, exit.Usagef("--%s says what this host is looked at for: give --host too", name)
	}
	client, closing, err := d.clientOrBundle(cmd.Context(), cmd.Flags(), nil)
	if err != nil {
		return nil, err
	}
	defer closing()
	var resp *adminpb.DoctorResponse
	err = client.TryEach(cmd.Context(), func(ctx context.Context, api adminpb.AdminClient) (err error) {
		resp, err = api.Doctor(ctx, &adminpb.DoctorRequest{})
		return err
	})
	switch {
	case status.Code(err) == codes.Unimplemented:
		return nil, exit.Unavailablef("look at the cluster: the controller that answers runs an older build; upgrade it, or use --host on each host")
	case err != nil: // whatever it is, nothing is known
		return nil, d.list.notKnown("look at the cluster", err)
	}
	return resp, nil
}
