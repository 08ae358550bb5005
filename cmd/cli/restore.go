package cli

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode"
	"github.com/holdfast-storage/holdfast/raftnode/backup"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// restoreOptions are the flags of `holdfast restore`.
type restoreOptions struct {
	backupFiles
	rebuildOptions

	logStore string
	above    uint64
}

// rebuildOptions are the flags of the verbs that make a new member's data folder.
type rebuildOptions struct {
	dir, advertise, marker string
	yes                    bool
}

func (o *rebuildOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.dir, "data-dir", "", "the controller's data `folder`")
	flags.StringVar(&o.advertise, "advertise", "", "`address` of the new member's Raft listener that the others dial, host:port")
	flags.StringVar(&o.marker, "bootstrap-marker", "", "`file` that remembers that a cluster was founded; by default --data-dir with the ending .founded")
	flags.BoolVar(&o.yes, "yes", false, "carry the plan out; without it, it is only shown")
}

func (o *rebuildOptions) check() error {
	host, port, err := net.SplitHostPort(o.advertise)
	switch {
	case o.dir == "":
		return exit.Usagef("name the controller's data folder with --data-dir")
	case err != nil || host == "" || port == "" || port == "0" || net.ParseIP(host).IsUnspecified():
		return exit.Usagef("name the address that the other controllers will dial with --advertise host:port; %q is none", o.advertise)
	}
	o.dir = filepath.Clean(o.dir)
	if o.marker == "" {
		o.marker = o.dir + ".founded" // beside a link, as the controller has it
	}
	if resolved, err := filepath.EvalSymlinks(o.dir); err == nil {
		o.dir = resolved
	}
	return nil
}

func restoreCommand() *cobra.Command {
	o := &restoreOptions{}
	cmd := &cobra.Command{Use: "restore", Short: "Make a controller's data folder from a backup, after the loss of all controllers",
		Long: "Makes the folder of a new controller of the same cluster, the only voter, with the state of a backup and of the\n" +
			"increments since, in an empty folder. The cluster gets another incarnation, in its first entry. Shows what it would\n" +
			"do; --yes does it. The folder is there whole or not at all; interrupted, the same command begins again.\n\n" +
			"All controllers that the cluster had must stay stopped, or be wiped. It cannot be seen from here whether one runs.",
		Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.OutOrStdout(), cmd.ErrOrStderr()) }}
	o.rebuildOptions.addFlags(cmd)
	o.backupFiles.addFlags(cmd)
	cmd.Flags().StringVar(&o.full, "backup", "", "the full backup, a `file`")
	cmd.Flags().StringArrayVar(&o.increments, "increment", nil, "an increment since, a `file`; may be repeated, in any order")
	cmd.Flags().Uint64Var(&o.above, "above-incarnation", 0, "begin an `incarnation` above this one: the highest that the cluster ever had, when it was restored or recovered since the backup")
	cmd.Flags().StringVar(&o.logStore, "log-store", store.WAL, "Raft log `store` of the new folder: wal or boltdb")
	return cmd
}

func (o *restoreOptions) run(out, notes io.Writer) error {
	switch {
	case o.full == "":
		return exit.Usagef("name the backup with --backup")
	case o.logStore != store.WAL && o.logStore != store.BoltDB:
		return exit.Usagef("--log-store %q is neither wal nor boltdb", o.logStore)
	}
	if err := o.rebuildOptions.check(); err != nil {
		return err
	}
	content, err := o.load(notes)
	if err != nil {
		return err
	}
	if done, err := o.isDone(content); done || err != nil {
		if done {
			fmt.Fprintf(out, "%s was made from this state already: nothing was changed\n", o.dir)
		}
		return exit.Wrap(exit.Refused, err)
	}
	if err := raftnode.CheckRestoreTarget(o.dir); err != nil {
		return exit.Wrap(exit.Refused, fmt.Errorf("restore: %w", err))
	}
	if err := o.checkFounded(content); err != nil {
		return err
	}
	o.printPlan(out, content)
	if !o.yes {
		fmt.Fprintln(notes, "nothing was changed: the same command with --yes carries this out")
		return nil
	}
	made, err := raftnode.Restore(o.dir, raftnode.Rebuild{
		State: content.State, Index: content.Index(), Term: content.Term, Advertise: o.advertise, LogStore: o.logStore, Above: o.above,
		Marker: o.marker, Actor: "admin/offline-restore", Now: time.Now(),
	})
	if err != nil {
		return rebuildError("restore", err)
	}
	fmt.Fprintf(out, "done: %s is the folder of member %s, incarnation %d\n", o.dir, made.Member, made.Incarnation)
	return nil
}

// checkFounded refuses a backup of another cluster than the one that was founded from the folder, unless --cluster names it.
func (o *restoreOptions) checkFounded(content *backup.Content) error {
	founded, err := raftnode.FoundedCluster(o.dir, o.marker)
	switch of := content.Full.ClusterID; {
	case err != nil:
		return exit.Wrap(exit.Refused, fmt.Errorf("restore: %w", err))
	case founded != "" && founded != of && o.cluster == "":
		return exit.Refusedf("restore: nothing was changed: the backup is of cluster %s, and %s says that cluster %s was founded here: name a backup of that one, or --cluster %s if this host is to serve the other one from now on",
			of, o.marker, founded, of)
	}
	return nil
}

// isDone tells a folder that was restored from this state before.
func (o *restoreOptions) isDone(content *backup.Content) (bool, error) {
	made, err := raftnode.ReadRebuilt(o.dir)
	return made != nil && made.Kind == "restore" && made.StateHash == fmt.Sprintf("%x", content.State.Hash()) && made.Index == content.Index(), err
}

func rebuildError(verb string, err error) error {
	if errors.Is(err, store.ErrInUse) {
		return exit.Refusedf("%s: %w: another process works on it", verb, err)
	}
	return exit.Wrap(exit.Refused, fmt.Errorf("%s: %w", verb, err))
}

func (o *restoreOptions) printPlan(w io.Writer, content *backup.Content) {
	fmt.Fprintf(w, "%s\n", describe(content.Full))
	if content.Last.Index != content.Full.Index {
		fmt.Fprintf(w, "%s\n", describe(content.Last))
	}
	fmt.Fprintf(w, "the state at index %d, of %s, becomes that of a new member, the only voter, at %s\n",
		content.Index(), content.State.Cluster().Time.UTC().Format(time.RFC3339), o.advertise)
	fmt.Fprintln(w, "whatever was decided after that is not in it")
	o.printRebuild(w, content.State.Cluster().Incarnation, raftnode.NextIncarnation(content.State, o.above))
}

// printRebuild says what both verbs do and what the operator has to.
func (o *rebuildOptions) printRebuild(w io.Writer, from, to uint64) {
	fmt.Fprintf(w, "steps:\n"+
		"  make %s, for uid %d: start the controller as that user\n"+
		"  replace incarnation %d by %d, in the first entry of its log\n"+
		"  remember in %s that this member founded the cluster, once more\n", o.dir, os.Geteuid(), from, to, o.marker)
	fmt.Fprint(w, "before it is started:\n"+
		"  every other controller that the cluster had stays stopped, or its folder is deleted; it cannot be seen from here whether one runs\n"+
		"then:\n"+
		"  start it with its usual flags\n"+
		"  start the other controllers with empty data folders and --join: they become members\n"+
		"  hosts enable and delete nothing until an operator adopts them: `holdfast adopt`, or `holdfast nodes adopt` for each\n")
}
