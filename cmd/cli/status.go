package cli

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/cmd/dev"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

func statusCommand() *cobra.Command {
	cmd := listCommand("status", "Show the leader, the members and their states' hashes", noArgs, admin.StatusList, readStatus)
	cmd.Long = "Shows the leader and every member. The hashes are all of one index: the commit index that the call read when it\n" +
		"began. Without a leader it shows what it knows and exits 3."
	return cmd
}

// readStatus answers what is known, also where there is no leader and an error says so.
func readStatus(ctx context.Context, c *connection, client *admin.Client, _ listing.View, _ []string) (proto.Message, error) {
	resp, known, err := client.Status(ctx)
	if resp == nil {
		if c.dir == "" {
			return nil, exit.Unavailablef("read the status: no controller answers: %w", err)
		}
		resp = statusOfStoppedCluster(c.dir, err)
	}
	fillNames(resp, dev.Names(c.dir))
	if !known {
		return resp, exit.Unavailablef("read the status: there is no leader: %s", exit.Line(err))
	}
	return resp, nil
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
