package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

func historyCommand() *cobra.Command {
	req := &adminpb.HistoryRequest{}
	cmd := command("history [VOLUME]", "Show what happened: commands, who asked, what was decided", atMostOne, changePatience,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				req.Volume = args[0]
			}
			return history(ctx, c, client, cmd, req)
		})
	cmd.Long = "Shows the journal of the controller that answers: every command that was applied, who asked for it and what was\n" +
		"decided. It says from which index that controller knows. VOLUME is an id, or a name for all volumes that ever had it."
	cmd.Flags().StringVar(&req.Volume, "volume", "", "only what concerns this volume, by `id or name`")
	cmd.Flags().StringVar(&req.Node, "node", "", "only what names this `node`")
	cmd.Flags().Uint64Var(&req.From, "from", 0, "from this log `index`")
	cmd.Flags().Uint64Var(&req.To, "to", 0, "up to this log `index`")
	return cmd
}

func history(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, req *adminpb.HistoryRequest) error {
	var doc *admin.Document
	err := client.History(ctx, req, func(m *adminpb.HistoryResponse) (err error) {
		if header := m.GetHeader(); header != nil {
			doc, err = admin.NewDocument(cmd.OutOrStdout(), c.output, header, "entries")
			return err
		}
		return doc.Item("entries", m.GetEntry())
	})
	if err != nil {
		return doing("read the history", err)
	}
	return doc.End()
}

func stateCommand() *cobra.Command {
	req := &adminpb.StateRequest{}
	cmd := command("state", "Print the whole state at one index", noMore, changePatience,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, _ []string) error {
			return state(ctx, c, client, cmd, req)
		})
	cmd.Flags().BoolVar(&req.Stale, "stale", false, staleHelp)
	return cmd
}

func state(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, req *adminpb.StateRequest) error {
	format := c.output
	if !cmd.Flags().Changed("output") {
		format = "json" // a whole state is no table
	}
	var doc *admin.Document
	err := client.State(ctx, req, func(m *adminpb.StateResponse) (err error) {
		switch body := m.GetBody().(type) {
		case *adminpb.StateResponse_Header:
			doc, err = admin.NewDocument(cmd.OutOrStdout(), format, body.Header, "nodes", "volumes")
		case *adminpb.StateResponse_Node:
			err = doc.Item("nodes", body.Node)
		case *adminpb.StateResponse_Volume:
			err = doc.Item("volumes", body.Volume)
		}
		return err
	})
	if err != nil {
		return doing("read the state", err)
	}
	return doc.End()
}
