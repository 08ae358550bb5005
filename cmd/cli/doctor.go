package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// doctorTimeout is above what a host may take to look at itself.
const doctorTimeout = time.Minute

func doctorCommand() *cobra.Command {
	c, host := &connection{}, &hostFlags{}
	var onHost, all bool
	cmd := &cobra.Command{Use: "doctor", Short: "Look for what is not as it should be, in a cluster or on this host", Args: noArgs,
		Long: "Has every member and every reachable host look at itself, adds what the cluster knows, and lists what is not as it\n" +
			"should be, each with a remedy. With --host it looks at this host alone and needs no cluster: kernel modules, commands,\n" +
			"LVM's filter, DRBD, control groups, the clock, how long durable writes take, certificates and free space, for what\n" +
			"--role, --pool-dir, --pool and --replication-address say that it is to run. Nothing is changed: a file that measures\n" +
			"the disk of --data-dir is removed again.\n" +
			"Exits 1 when an error was found, 3 when something could not be found out.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := admin.CheckFormat(c.output); err != nil {
				return exit.Wrap(exit.Usage, err)
			}
			resp, err := examine(cmd, c, host, onHost)
			if err != nil {
				return err
			}
			return printDoctor(cmd, c.output, resp, all)
		}}
	c.addFlags(cmd, doctorTimeout)
	flags := cmd.Flags()
	flags.StringVar(&c.bundle, "bundle", "", bundleHelp)
	flags.BoolVar(&onHost, "host", false, "look at this host, without a cluster")
	flags.BoolVar(&all, "all", false, "list what is as it should be, too")
	host.add(flags)
	return cmd
}

// examine looks at this host or at the cluster.
func examine(cmd *cobra.Command, c *connection, host *hostFlags, onHost bool) (*adminpb.DoctorResponse, error) {
	if onHost && c.bundle != "" {
		return nil, exit.Usagef("--host looks at this host, and --bundle at what was found of a cluster: give one of the two")
	}
	if onHost {
		return host.examine(cmd.Context(), c)
	}
	if name := host.firstGiven(cmd.Flags()); name != "" {
		return nil, exit.Usagef("--%s says what this host is looked at for: give --host too", name)
	}
	client, closing, err := c.clientOrBundle(cmd.Flags(), nil)
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
		return nil, exit.Unavailablef("look at the cluster: %s", exit.Line(err))
	}
	return resp, nil
}

// printDoctor prints the findings. The exit code is of all of them, shown or not.
func printDoctor(cmd *cobra.Command, format string, resp *adminpb.DoctorResponse, all bool) error {
	worst, shown := admin.WorstOf(resp.GetFindings()), resp
	if !all {
		shown = &adminpb.DoctorResponse{Index: resp.GetIndex(), Findings: admin.WithoutFine(resp.GetFindings())}
	}
	if err := admin.Print(cmd.OutOrStdout(), format, shown); err != nil {
		return err
	}
	switch worst {
	case admin.SeverityError:
		return exit.Silent(exit.Refused)
	case admin.SeverityUnknown:
		return exit.Silent(exit.Unavailable)
	}
	return nil
}
