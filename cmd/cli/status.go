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

const statusPatience = 10 * time.Second

func statusCommand() *cobra.Command {
	cmd := command("status", "Show the leader, the members and their states' hashes", noMore, statusPatience, status)
	cmd.Long = "Shows the leader and every member. The hashes are all of one index: the commit index that the call read when it\n" +
		"began. Without a leader it shows what it knows and exits 3."
	return cmd
}

// status prints what is known also when nobody leads.
func status(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, _ []string) error {
	resp, known, err := client.Status(ctx)
	if resp == nil {
		if c.dir == "" {
			return exit.Unavailablef("read the status: no controller answers: %w", err)
		}
		resp = absent(c.dir, err)
	}
	name(resp, dev.Names(c.dir))
	if err := admin.Print(cmd.OutOrStdout(), c.output, resp); err != nil {
		return err
	}
	if !known {
		return exit.Unavailablef("read the status: there is no leader: %s", exit.Line(err))
	}
	return nil
}

// name fills in the ids of members that did not tell them since the controller
// that answers was started.
func name(resp *adminpb.StatusResponse, names map[string]string) {
	for _, m := range resp.GetMembers() {
		if m.GetId() == "" {
			m.Id = names[m.GetAddress()]
		}
	}
	slices.SortFunc(resp.GetMembers(), func(a, b *adminpb.Member) int { return cmp.Compare(a.GetId(), b.GetId()) })
}

// absent is the status of a developer's cluster of which nobody answers.
func absent(dir string, err error) *adminpb.StatusResponse {
	resp := &adminpb.StatusResponse{}
	cluster, failed := dev.ReadCluster(dir)
	if failed != nil {
		return resp
	}
	for _, one := range cluster.Controllers {
		resp.Members = append(resp.Members, &adminpb.Member{Id: one.ID, Detail: exit.Line(err)})
	}
	return resp
}
