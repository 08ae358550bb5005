package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/backup"
)

// backupTimeout is how long one controller may take to stream a backup.
const backupTimeout = time.Hour

// backupOptions are the flags of `holdfast backup`.
type backupOptions struct {
	connection

	reason         string
	stale          bool
	since          uint64
	sinceBackup    string
	identity       string
	recipients     []string
	recipientsFile string
}

func backupCommand() *cobra.Command {
	o := &backupOptions{}
	cmd := &cobra.Command{Use: "backup FILE|-", Short: "Write a backup of the cluster's state to a file",
		Long: "Streams the state at one index from the first controller that answers, while it serves, to FILE, or to standard output\n" +
			"for -. FILE appears when all of it is written, and is checked then; a file of that name is replaced. With --since or\n" +
			"--since-backup it holds the commands above an index instead, an increment, so that `holdfast restore` can make the\n" +
			"state at any index since a full backup. It has what the state has, names and parameters of volumes among it; no key,\n" +
			"passphrase or data of a volume. Encrypt it with --recipient where others can read the file.",
		Args: exactArgs("FILE"), RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) }}
	flags := cmd.Flags()
	o.addFlagsTo(flags, backupTimeout)
	flags.StringVar(&o.reason, "reason", "", reasonHelp)
	flags.BoolVar(&o.stale, "stale", false, staleHelp)
	flags.Uint64Var(&o.since, "since", 0, "write the commands above this log `index`, an increment")
	flags.StringVar(&o.sinceBackup, "since-backup", "", "write the commands since this backup, a `file`, as an increment")
	flags.StringVar(&o.identity, "identity", "", identityHelp)
	flags.StringArrayVar(&o.recipients, "recipient", nil, "encrypt to this `age1...`; may be repeated")
	flags.StringVar(&o.recipientsFile, "recipients-file", "", "encrypt to those that this `file` lists, one a line")
	cmd.AddCommand(backupVerifyCommand(), backupListCommand())
	return cmd
}

const identityHelp = "`file` with an identity of age, which decrypts backups"

func (o *backupOptions) run(cmd *cobra.Command, path string) error {
	req, err := o.request(cmd)
	if err != nil {
		return err
	}
	recipients, err := backup.Recipients(o.recipients, o.recipientsFile)
	if err != nil {
		return exit.Wrap(exit.Usage, err)
	}
	client, err := o.client(cmd.Context())
	if err != nil {
		return err
	}
	progress := newProgress(cmd.ErrOrStderr(), "backup")
	var h backup.Header
	fill := func(w io.Writer) (err error) {
		h, err = receiveBackup(cmd.Context(), client, req, progress.writer(w), recipients)
		return err
	}
	if path == "-" {
		err = fill(cmd.OutOrStdout())
	} else {
		err = backup.CreateFile(path, fill)
	}
	if err != nil {
		return callError("back up to "+path, err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s, %d bytes\n", path, describe(h), progress.bytes)
	return nil
}

// request is what the flags ask for.
func (o *backupOptions) request(cmd *cobra.Command) (*adminpb.BackupRequest, error) {
	req := &adminpb.BackupRequest{Stale: o.stale, Reason: o.reason}
	switch since := cmd.Flags().Changed("since"); {
	case since && o.sinceBackup != "":
		return nil, exit.Usagef("--since and --since-backup exclude each other")
	case since:
		req.Increment, req.Since = true, o.since
	case o.sinceBackup != "":
		identities, err := backup.Identities(o.identity)
		if err != nil {
			return nil, exit.Wrap(exit.Usage, err)
		}
		h, err := backup.CheckFile(o.sinceBackup, identities)
		if err != nil {
			return nil, exit.Wrap(exit.Refused, err)
		}
		req.Increment, req.Since = true, h.Index
		req.BaseClusterId, req.BaseIncarnation, req.BaseIncarnationId = h.ClusterID, h.Incarnation, h.IncarnationID
	}
	return req, nil
}

// receiveBackup receives a backup, checks it and writes it, encrypted if there are recipients.
func receiveBackup(ctx context.Context, client *admin.Client, req *adminpb.BackupRequest, w io.Writer, recipients []age.Recipient) (backup.Header, error) {
	out, err := backup.Encrypt(w, recipients)
	if err != nil {
		return backup.Header{}, err
	}
	h, err := backup.Receive(out, func(w io.Writer) error {
		return client.Backup(ctx, req, func(part []byte) error {
			_, err := w.Write(part)
			return err
		})
	})
	if err != nil {
		return h, err
	}
	return h, out.Close()
}

// describe says in a line what a backup is of.
func describe(h backup.Header) string {
	if h.Kind == backup.Increment {
		return fmt.Sprintf("increment of cluster %s, incarnation %d, indexes %d to %d, by %s at %s", h.ClusterID, h.Incarnation, h.Since+1, h.Index, h.Member, h.Time.Format(time.RFC3339))
	}
	return fmt.Sprintf("backup of cluster %s, incarnation %d, index %d, by %s at %s", h.ClusterID, h.Incarnation, h.Index, h.Member, h.Time.Format(time.RFC3339))
}

func backupVerifyCommand() *cobra.Command {
	files := &backupFiles{}
	cmd := &cobra.Command{Use: "verify FILE [INCREMENT...]", Short: "Check a backup and its increments, and say what they hold",
		Long: "Reads every file to its end, compares the checksums, decodes the state and replays the increments on it, without a\n" +
			"cluster. It fails for a file that is truncated or damaged, increments of another cluster or that do not continue\n" +
			"each other, and what a newer build wrote.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usagef("it takes FILE, and the increments since; see `%s --help`", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			files.full, files.increments = args[0], args[1:]
			content, err := files.load(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			printContent(cmd.OutOrStdout(), content)
			return nil
		}}
	files.addFlags(cmd)
	return cmd
}

// backupFiles are the flags that name backups to be read.
type backupFiles struct {
	full       string
	increments []string
	identity   string
	cluster    string
	at         uint64
}

func (f *backupFiles) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.cluster, "cluster", "", "refuse backups of another cluster than this one, by its `id`, as `backup verify` and the plan of `restore` show it")
	cmd.Flags().StringVar(&f.identity, "identity", "", identityHelp)
	cmd.Flags().Uint64Var(&f.at, "at", 0, "the state at this log `index`; the last that the files reach when not given")
}

func (f *backupFiles) load(notes io.Writer) (*backup.Content, error) {
	identities, err := backup.Identities(f.identity)
	if err != nil {
		return nil, exit.Wrap(exit.Usage, err)
	}
	for _, path := range append([]string{f.full}, f.increments...) {
		if _, err := os.Stat(path); err != nil {
			return nil, exit.Usagef("read the backup: %w", err)
		}
	}
	content, err := backup.Load(backup.Files{Full: f.full, Increments: f.increments, Identities: identities, At: f.at, Watch: newProgress(notes, "read").writer(io.Discard)})
	switch {
	case err != nil:
		return nil, exit.Wrap(exit.Refused, err)
	case f.cluster != "" && f.cluster != content.Full.ClusterID:
		return nil, exit.Refusedf("read the backup %s: it is of cluster %s, and --cluster names %s", f.full, content.Full.ClusterID, f.cluster)
	}
	return content, nil
}

func printContent(w io.Writer, content *backup.Content) {
	state := content.State
	c, hash := state.Cluster(), state.Hash()
	var nodes, groups, operations int
	for range state.Nodes() {
		nodes++
	}
	for range state.VolumeGroups("") {
		groups++
	}
	for range state.Operations() {
		operations++
	}
	fmt.Fprintf(w, "cluster        %s\nincarnation    %d (%x)\nindex          %d\nterm           %d\nhash           %x\nfeature level  %d\n",
		c.ID, c.Incarnation, c.IncarnationID, c.Index, content.Term, hash, c.FeatureLevel)
	fmt.Fprintf(w, "full backup    index %d, by %s at %s\nreaches        index %d, by %s at %s\n",
		content.Full.Index, content.Full.Member, content.Full.Time.Format(time.RFC3339), content.Last.Index, content.Last.Member, content.Last.Time.Format(time.RFC3339))
	fmt.Fprintf(w, "volumes        %d\nnodes          %d\nsnapshots      %d\nvolume groups  %d\noperations     %d\n",
		state.VolumeCount(), nodes, state.SnapshotCount(), groups, operations)
}
