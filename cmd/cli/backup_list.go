package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/backup"
	"github.com/holdfast-storage/holdfast/raftnode/backup/target"
)

// backupsInterval is how often a watch lists a target, which may be paid for by the call.
const backupsInterval = 30 * time.Second

func backupListCommand() *cobra.Command {
	o, c, f := &daemon.BackupTargetFlags{}, &connection{}, newListFlags(admin.BackupList)
	f.interval = backupsInterval
	var identity string
	cmd := &cobra.Command{Use: "list", Short: "List the backups that the controllers wrote to a target",
		Long: "Lists what --backup-to holds, and reads the beginning of each to see that it is what its name says; of an encrypted one\n" +
			"with --identity. `holdfast backup verify` reads them whole. Exits with 1 when one is not what its name says, shown or\n" +
			"not. With --watch each that was as named is read once, and what is wrong with the others is a column of -o wide.",
		Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := openBackups(o.Options, identity)
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), c, cmd, func(listing.View) (proto.Message, error) {
				resp, err := b.look(cmd.Context())
				if err != nil {
					return nil, exit.Wrap(exit.Unavailable, err)
				}
				return resp, f.verdict(func() error { return tellWrongBackups(cmd.ErrOrStderr(), resp) })
			})
		}}
	o.Add(cmd.Flags())
	cmd.Flags().StringVar(&identity, "identity", "", identityHelp)
	c.addOutputFlag(cmd.Flags())
	f.add(cmd)
	return cmd
}

// tellWrongBackups says what is wrong, as the narrow table has no room for it.
func tellWrongBackups(w io.Writer, resp *adminpb.BackupsResponse) error {
	wrong := 0
	for _, b := range resp.GetBackups() {
		if b.GetHeader() == admin.BackupWrong {
			wrong++
			fmt.Fprintf(w, "%s: %s\n", listing.OneLine(b.GetName()), listing.OneLine(b.GetDetail()))
		}
	}
	if wrong > 0 {
		return exit.Refusedf("list the backups in %s: %d are not what their names say", resp.GetTarget(), wrong)
	}
	return nil
}

// backupFolder is a target that is looked at, once or again and again.
type backupFolder struct {
	to         target.Target
	identities []age.Identity
	// asNamed are those that need not be read again: a target never changes a file.
	asNamed map[target.Name]bool
}

func openBackups(o target.Options, identity string) (*backupFolder, error) {
	if o.To == "" {
		return nil, exit.Usagef("name the target with --backup-to")
	}
	to, err := target.Open(o)
	if err != nil {
		return nil, exit.Usagef("--backup-to: %w", err)
	}
	identities, err := backup.Identities(identity)
	if err != nil {
		return nil, exit.Wrap(exit.Usage, err)
	}
	return &backupFolder{to: to, identities: identities, asNamed: map[target.Name]bool{}}, nil
}

// names are the backups that there are, in the order of their lives and indexes.
func (b *backupFolder) names(ctx context.Context) (all []target.Name, err error) {
	texts, err := b.to.Names(ctx)
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		if n, ok := target.ParseName(text); ok {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b target.Name) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Incarnation, b.Incarnation), cmp.Compare(a.IncarnationID, b.IncarnationID), cmp.Compare(a.String(), b.String()))
	})
	return all, nil
}

// look lists the target, and reads what was not read before. One that was removed meanwhile, as the leader does with old ones, is
// not wrong.
func (b *backupFolder) look(ctx context.Context) (*adminpb.BackupsResponse, error) {
	names, err := b.names(ctx)
	if err != nil {
		return nil, err
	}
	resp, wrong := &adminpb.BackupsResponse{Target: b.to.String()}, false
	for _, n := range names {
		file := b.file(ctx, n)
		wrong = wrong || file.GetHeader() == admin.BackupWrong
		resp.Backups = append(resp.Backups, file)
	}
	if !wrong {
		return resp, nil
	}
	if names, err = b.names(ctx); err != nil {
		return nil, err
	}
	resp.Backups = slices.DeleteFunc(resp.GetBackups(), func(f *adminpb.BackupFile) bool {
		return !slices.ContainsFunc(names, func(n target.Name) bool { return n.String() == f.GetName() })
	})
	return resp, nil
}

// file is what is said of one backup.
func (b *backupFolder) file(ctx context.Context, n target.Name) *adminpb.BackupFile {
	file := &adminpb.BackupFile{
		Name: n.String(), Kind: n.Kind, Cluster: n.Cluster, Incarnation: n.Incarnation, IncarnationId: n.IncarnationID,
		Since: n.Since, Index: n.Index, Time: n.Time.Format(time.RFC3339), Encrypted: n.Encrypted, Header: admin.BackupAsNamed,
	}
	if b.asNamed[n] {
		return file
	}
	switch err := checkHeader(ctx, b.to, n, b.identities); {
	case errors.Is(err, errNoIdentity):
		file.Header = admin.BackupEncrypted
	case err != nil:
		file.Header, file.Detail = admin.BackupWrong, exit.Line(err)
	default:
		b.asNamed[n] = true
	}
	return file
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
