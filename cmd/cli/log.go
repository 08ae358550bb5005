package cli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// logCommand groups the commands about a stopped member's log: they open its data directory themselves.
func logCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "log", Short: "Look into a stopped controller's log, and have an entry passed over",
		Long: "A committed entry that the state cannot take, which is a bug, ends every controller at each start. Start a build\n" +
			"that takes it on every controller; or, where there is none, stop all of them and have each pass the entry over:\n\n" +
			"  holdfast log inspect --data-dir DIR\n" +
			"  holdfast log skip --data-dir DIR --index N --hash HASH --reason TEXT\n\n" +
			"The decision is part of the state: a controller that did not pass the entry over is found at the next checkpoint\n" +
			"and leaves the cluster.",
		Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(logInspectCommand(), logSkipCommand())
	return cmd
}

// withLogStore opens a stopped member's log, runs fn with it and closes it.
func withLogStore(dir string, fn func(*raftnode.Offline) error) error {
	if dir == "" {
		return exit.Usagef("name the controller's data folder with --data-dir")
	}
	o, err := raftnode.OpenOffline(dir)
	switch {
	case errors.Is(err, store.ErrInUse):
		return exit.Refusedf("%w: stop the controller first", err)
	case err != nil:
		return exit.Wrap(exit.Refused, err)
	}
	return errors.Join(fn(o), o.Close())
}

func logInspectCommand() *cobra.Command {
	var dir string
	var index uint64
	cmd := &cobra.Command{Use: "inspect", Short: "Say what a stopped controller's log holds, and at which entry it ended",
		Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			return withLogStore(dir, func(o *raftnode.Offline) error { return exit.Wrap(exit.Refused, inspect(cmd.OutOrStdout(), o, index)) })
		}}
	cmd.Flags().StringVar(&dir, "data-dir", "", "the controller's data `folder`")
	cmd.Flags().Uint64Var(&index, "index", 0, "show the entry at `index`; that at which it ended when not given")
	return cmd
}

func inspect(w io.Writer, o *raftnode.Offline, index uint64) error {
	first, last, snapshot, err := o.Bounds()
	if err != nil {
		return err
	}
	fault, err := o.Fault()
	if err != nil {
		return err
	}
	skips, err := o.Skips()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "member %s of cluster %s\nlog %d to %d, Raft snapshot at %d\n", o.MemberID, o.ClusterID(), first, last, snapshot)
	for _, k := range skips {
		fmt.Fprintf(w, "skipped: index %d, term %d, hash %s, at %s: %s\n", k.Index, k.Term, k.Hash, k.At.UTC().Format(time.RFC3339), listing.OneLine(k.Reason))
	}
	if fault != nil {
		fmt.Fprintf(w, "ended at: index %d, term %d, hash %s, at %s: %s\n", fault.Index, fault.Term, fault.Hash, fault.At.UTC().Format(time.RFC3339), listing.OneLine(fault.What))
		if index == 0 && fault.Index > snapshot {
			index = fault.Index
		}
	}
	if index == 0 {
		return nil
	}
	name, command, err := o.Entry(index)
	if err != nil {
		return fmt.Errorf("show entry %d: %w", index, err)
	}
	fmt.Fprintf(w, "entry: index %d, term %d, hash %s\n%s\n", name.Index, name.Term, name.Hash, asJSON(command))
	return nil
}

func asJSON(command *fsmpb.Command) string {
	if command == nil {
		return "(none of the state's)"
	}
	return protojson.MarshalOptions{Multiline: true}.Format(command)
}

func logSkipCommand() *cobra.Command {
	var dir, hash, reason string
	var index uint64
	cmd := &cobra.Command{Use: "skip", Short: "Have a stopped controller pass over the committed entry that its state cannot take",
		Long: "Refused are an entry that the state takes, one that this controller has not ended at, since nothing then says that\n" +
			"it is committed, one that is in a Raft snapshot, and one of another hash. Do the same on every controller before\n" +
			"any of them is started. Whoever asked for the command is told that it was passed over.",
		Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			if index == 0 || hash == "" || reason == "" {
				return exit.Usagef("say which entry with --index and --hash, as `holdfast log inspect` shows them, and why with --reason")
			}
			return withLogStore(dir, func(o *raftnode.Offline) error {
				k, err := o.Skip(index, hash, reason, time.Now())
				if err != nil {
					return exit.Wrap(exit.Refused, fmt.Errorf("skip entry %d: %w", index, err))
				}
				fmt.Fprintf(cmd.OutOrStdout(), "entry %d of term %d is passed over from the next start on; do the same on every other controller\n", k.Index, k.Term)
				return nil
			})
		}}
	cmd.Flags().StringVar(&dir, "data-dir", "", "the controller's data `folder`")
	cmd.Flags().Uint64Var(&index, "index", 0, "the entry's `index`")
	cmd.Flags().StringVar(&hash, "hash", "", "the entry's `hash`, so that no other is meant")
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for the record")
	return cmd
}
