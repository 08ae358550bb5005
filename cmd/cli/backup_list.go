package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/backup"
	"github.com/holdfast-storage/holdfast/raftnode/backup/target"
)

func backupListCommand() *cobra.Command {
	o := &daemon.BackupTargetFlags{}
	var identity string
	cmd := &cobra.Command{Use: "list", Short: "List the backups that the controllers wrote to a target",
		Long: "Lists what --backup-to holds, and reads the beginning of each to see that it is what its name says; of an encrypted one\n" +
			"with --identity. `holdfast backup verify` reads them whole. Exits with 1 when one is not what its name says.",
		Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			if o.To == "" {
				return exit.Usagef("name the target with --backup-to")
			}
			to, err := target.Open(o.Options)
			if err != nil {
				return exit.Usagef("--backup-to: %w", err)
			}
			identities, err := backup.Identities(identity)
			if err != nil {
				return exit.Wrap(exit.Usage, err)
			}
			return listBackups(cmd, to, identities)
		}}
	o.Add(cmd.Flags())
	cmd.Flags().StringVar(&identity, "identity", "", identityHelp)
	return cmd
}

func listBackups(cmd *cobra.Command, to target.Target, identities []age.Identity) error {
	texts, err := to.Names(cmd.Context())
	if err != nil {
		return exit.Wrap(exit.Unavailable, err)
	}
	var all []target.Name
	for _, text := range texts {
		if n, ok := target.ParseName(text); ok {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b target.Name) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Incarnation, b.Incarnation), cmp.Compare(a.IncarnationID, b.IncarnationID), cmp.Compare(a.String(), b.String()))
	})
	wrong := 0
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "KIND\tCLUSTER\tINCARNATION\tSINCE\tINDEX\tTIME\tHEADER\tNAME")
	for _, n := range all {
		header := checkHeader(cmd.Context(), to, n, identities)
		since, seen := "", "as named"
		if n.Kind == backup.Increment {
			since = fmt.Sprint(n.Since)
		}
		switch {
		case errors.Is(header, errNoIdentity):
			seen = "encrypted"
		case header != nil:
			seen = "wrong"
			wrong++
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", n, exit.Line(header))
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%s\t%s\t%s\n", n.Kind, n.Cluster, n.Incarnation, since, n.Index, n.Time.Format(time.RFC3339), seen, n)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if wrong > 0 {
		return exit.Refusedf("list the backups in %s: %d are not what their names say", to, wrong)
	}
	return nil
}

var errNoIdentity = errors.New("it is encrypted")

// checkHeader reads the beginning of a backup and compares it with its name.
func checkHeader(ctx context.Context, to target.Target, n target.Name, identities []age.Identity) error {
	if n.Encrypted && len(identities) == 0 {
		return errNoIdentity
	}
	in, err := to.Open(ctx, n.String())
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	r, err := backup.Decrypt(in, identities)
	if err != nil {
		return err
	}
	h, err := backup.ReadHeader(r)
	if err != nil {
		return err
	}
	if got := target.NameOf(h, n.Encrypted); got != n {
		return fmt.Errorf("%w: its header is that of %s", backup.ErrMismatch, got)
	}
	return nil
}
