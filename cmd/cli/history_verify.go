package cli

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode"
)

// verifyTimeout is how long one controller may take: a journal of the default size is read in less.
const verifyTimeout = 5 * time.Minute

func historyVerifyCommand() *cobra.Command {
	var dataDir string
	c := &connection{}
	cmd := &cobra.Command{Use: "verify", Short: "Check that no entry of a journal was altered, removed, inserted or swapped", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if onCommandLine(cmd.Flags(), "data-dir") {
				return c.verifyStopped(cmd, dataDir)
			}
			client, closing, err := c.clientOrBundle(cmd.Context(), cmd.Flags(), nil)
			if err != nil {
				return err
			}
			defer closing()
			return c.verifyHistory(cmd, client)
		}}
	cmd.Long = "Checks the journal of the controller that answers, of a stopped one (--data-dir) or of a bundle: each entry from feature\n" +
		"level 3 on has a link that is a hash of the link before it, of its command and of what was decided, and the state has the\n" +
		"last link. Exit code 1: an entry was altered, removed, inserted or swapped, or is missing; the indexes are named."
	c.addFlags(cmd, verifyTimeout)
	cmd.Flags().StringVar(&c.bundle, "bundle", "", bundleHelp)
	cmd.Flags().StringVar(&dataDir, "data-dir", "", "the data `folder` of a stopped controller, which is checked instead; nothing in it is changed")
	return cmd
}

func (c *connection) verifyHistory(cmd *cobra.Command, client *admin.Client) error {
	var resp *adminpb.VerifyHistoryResponse
	err := client.TryEach(cmd.Context(), func(ctx context.Context, api adminpb.AdminClient) (err error) {
		resp, err = api.VerifyHistory(ctx, &adminpb.VerifyHistoryRequest{})
		return err
	})
	if err != nil {
		return callError("verify the history", err)
	}
	return c.printVerified(cmd, resp)
}

// verifyStopped checks the journal of a controller that does not run, against its newest Raft snapshot.
func (c *connection) verifyStopped(cmd *cobra.Command, dataDir string) error {
	if c.bundle != "" || onCommandLine(cmd.Flags(), "dir") || onCommandLine(cmd.Flags(), "endpoints") {
		return exit.Usagef("choose what is verified: --data-dir, --bundle, --dir and --endpoints exclude each other")
	}
	if err := admin.CheckFormat(c.output); err != nil {
		return exit.Wrap(exit.Usage, err)
	}
	return withLogStore(dataDir, func(o *raftnode.Offline) error {
		skipped, err := skippedHashes(o)
		if err != nil {
			return exit.Wrap(exit.Refused, err)
		}
		resp, err := admin.VerifyJournal(o.State(), skipped, func(fn func(admin.Entry) bool) (uint64, error) {
			return o.History(func(e raftnode.Entry) bool {
				return fn(admin.Entry{Index: e.Index, Term: e.Term, Command: e.Command, Outcome: e.Outcome, GapTo: e.GapTo, GapReason: e.Reason, Chain: e.Chain})
			})
		})
		if err != nil {
			return exit.Wrap(exit.Refused, err)
		}
		resp.Member = dataDir
		return c.printVerified(cmd, resp)
	})
}

// skippedHashes are the entries that this member skips: the newest Raft snapshot may be older than they are.
func skippedHashes(o *raftnode.Offline) (map[uint64][]byte, error) {
	all, err := o.Skips()
	if err != nil {
		return nil, err
	}
	hashes := map[uint64][]byte{}
	for _, k := range all {
		if hashes[k.Index], err = hex.DecodeString(k.Hash); err != nil {
			return nil, fmt.Errorf("the hash of the skipped entry %d: %w", k.Index, err)
		}
	}
	return hashes, nil
}

func (c *connection) printVerified(cmd *cobra.Command, resp *adminpb.VerifyHistoryResponse) error {
	if err := admin.Print(cmd.OutOrStdout(), c.output, resp); err != nil {
		return err
	}
	if n := uint64(len(resp.GetBreaks())) + resp.GetMoreBreaks(); n > 0 {
		return exit.Refusedf("verify the history of %s: it is not what the cluster decided at %s, first at index %d", resp.GetMember(), admin.CountOf(n, "place"), resp.GetBreaks()[0].GetIndex())
	}
	return nil
}
