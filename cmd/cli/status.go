package cli

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/dev"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

const statusTimeout = 10 * time.Second

func statusCommand() *cobra.Command {
	cmd := apiCommand("status", "Show the leader, the members and their states' hashes", noArgs, statusTimeout, printStatus)
	cmd.Long = "Shows the leader and every member. The hashes are all of one index: the commit index that the call read when it\n" +
		"began. Without a leader it shows what it knows and exits 3."
	return cmd
}

// printStatus prints the status, also when there is no leader.
func printStatus(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, _ []string) error {
	resp, known, err := client.Status(ctx)
	if resp == nil {
		if c.dir == "" {
			return exit.Unavailablef("read the status: no controller answers: %w", err)
		}
		resp = statusOfStoppedCluster(c.dir, err)
	}
	fillNames(resp, dev.Names(c.dir))
	if err := admin.Print(cmd.OutOrStdout(), c.output, resp); err != nil {
		return err
	}
	if !known {
		return exit.Unavailablef("read the status: there is no leader: %s", exit.Line(err))
	}
	return nil
}

// fillNames sets the ids of members that have not answered the queried controller since it was started.
func fillNames(resp *adminpb.StatusResponse, names map[string]string) {
	for _, m := range resp.GetMembers() {
		if m.GetId() == "" {
			m.Id = names[m.GetAddress()]
		}
	}
	slices.SortFunc(resp.GetMembers(), func(a, b *adminpb.Member) int { return cmp.Compare(a.GetId(), b.GetId()) })
}

// statusOfStoppedCluster is the status of a developer's cluster without a running controller.
func statusOfStoppedCluster(dir string, err error) *adminpb.StatusResponse {
	resp := &adminpb.StatusResponse{}
	cluster, readErr := dev.ReadCluster(dir)
	if readErr != nil {
		return resp
	}
	for _, controller := range cluster.Controllers {
		resp.Members = append(resp.Members, &adminpb.Member{Id: controller.ID, Detail: exit.Line(err)})
	}
	return resp
}
