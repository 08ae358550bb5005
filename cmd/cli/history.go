package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

func historyCommand() *cobra.Command {
	req := &adminpb.HistoryRequest{}
	cmd := offlineCommand("history [VOLUME|SNAPSHOT|GROUP]", "Show what happened: commands, who asked, what was decided", maxOneArg, changeTimeout, nil,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				setSubject(req, args[0])
			}
			return printHistory(ctx, c, client, cmd, req)
		})
	cmd.Long = "Shows the journal of the controller that answers: every command that was applied, who asked for it and what was\n" +
		"decided. It says from which index that controller knows. VOLUME is an id, or a name for all volumes that ever had\n" +
		"it; SNAPSHOT is the id of a snapshot or of a group snapshot, GROUP that of a volume group. A fence is shown for each node\n" +
		"that has an address in its CIDRs."
	cmd.Flags().StringVar(&req.Volume, "volume", "", "only what concerns this volume, by `id or name`")
	cmd.Flags().StringVar(&req.Snapshot, "snapshot", "", "only what concerns this snapshot or group snapshot, by `id or name`")
	cmd.Flags().StringVar(&req.Group, "group", "", "only what concerns this volume group, by `id or name`")
	cmd.Flags().StringVar(&req.Node, "node", "", "only what names this `node` or fences it")
	cmd.Flags().Uint64Var(&req.From, "from", 0, "from this log `index`")
	cmd.Flags().Uint64Var(&req.To, "to", 0, "up to this log `index`")
	cmd.AddCommand(historyVerifyCommand())
	return cmd
}

// setSubject sets the object that the id belongs to; a name is a volume's.
func setSubject(req *adminpb.HistoryRequest, id string) {
	switch {
	case fsm.SnapshotID(id).Valid() || fsm.GroupSnapshotID(id).Valid():
		req.Snapshot = id
	case fsm.VolumeGroupID(id).Valid():
		req.Group = id
	default:
		req.Volume = id
	}
}

func printHistory(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, req *adminpb.HistoryRequest) error {
	var doc *admin.Document
	err := client.History(ctx, req, func(m *adminpb.HistoryResponse) (err error) {
		if header := m.GetHeader(); header != nil {
			doc, err = admin.NewDocument(cmd.OutOrStdout(), c.output, header, "entries")
			return err
		}
		return doc.Item("entries", m.GetEntry())
	})
	if err != nil {
		return callError("read the history", err)
	}
	return doc.End()
}

func stateCommand() *cobra.Command {
	req := &adminpb.StateRequest{}
	var at uint64
	cmd := offlineCommand("state", "Print the whole state at one index", noArgs, changeTimeout, &at,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, _ []string) error {
			return printState(ctx, c, client, cmd, req)
		})
	cmd.Flags().BoolVar(&req.Stale, "stale", false, staleHelp)
	cmd.Flags().Uint64Var(&at, "at", 0, "with --bundle: the state at this log `index`, decided again from the journal; the newest by default")
	return cmd
}

func printState(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, req *adminpb.StateRequest) error {
	format := c.output
	if !cmd.Flags().Changed("output") {
		format = "json" // a complete state does not fit a table
	}
	doc := admin.StateDocument{W: cmd.OutOrStdout(), Format: format}
	err := client.State(ctx, req, doc.Add)
	if err != nil {
		return callError("read the state", err)
	}
	return doc.End()
}
