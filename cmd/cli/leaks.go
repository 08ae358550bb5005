package cli

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/leaks"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/csi/identity"
)

// leaksOptions are the flags of `volumes leaks`.
type leaksOptions struct {
	file, driver, site string
	olderThan          time.Duration
}

func leaksCommand() *cobra.Command {
	var o leaksOptions
	f, looks := newListFlags(admin.LeakList), 0
	f.interval = lookInterval // each look reads the journal
	var cmd *cobra.Command
	cmd = f.command("leaks", "Compare an orchestrator's list of volumes with the log, and name what only one of them has", noArgs, changeTimeout,
		func(ctx context.Context, _ *connection, client *admin.Client, _ listing.View, _ []string) (proto.Message, error) {
			if err := o.check(f.watch); err != nil {
				return nil, err
			}
			list, taken, err := o.readList(cmd.InOrStdin())
			if looks++; err != nil && looks > 1 { // it is being written anew
				return nil, exit.Wrap(exit.Unavailable, err)
			}
			if err != nil {
				return nil, exit.Wrap(exit.Usage, err)
			}
			resp, err := o.compare(ctx, client, cmd, list, taken)
			if err != nil {
				return nil, err
			}
			found := len(resp.GetFound()) > 0
			return resp, f.verdict(func() error {
				if found {
					return exit.Silent(exit.Refused)
				}
				return nil
			})
		})
	cmd.Long = "Compares what an orchestrator has with what the log has, and changes nothing. The list is the output of\n" +
		"`kubectl get persistentvolumes,volumesnapshotcontents,volumeattachments -o json`, or of any of the three, or plain lines\n" +
		"with an id each. A leak is a volume or snapshot that the list does not name; lost is what only the list names; an\n" +
		"attachment that only one of the two has is named too, by Kubernetes' node name, which must be Holdfast's. A list that\n" +
		"is empty, cut short, or a part of a longer one is refused. What was made within --older-than before the list\n" +
		"was taken, by the file's time, may be on its way into it: it is shown, and is no finding. Exit code 1: something was found,\n" +
		"shown or not. With --watch the file is read again at each look, and it goes on whatever is found."
	flags := cmd.Flags()
	flags.StringVar(&o.file, "list", "", "the orchestrator's list, a `file`; - is standard input")
	flags.StringVar(&o.driver, "driver", identity.Name, "the CSI driver's `name` in the list")
	flags.StringVar(&o.site, "site", "", "the orchestrator's `site`, where several use the cluster")
	flags.DurationVar(&o.olderThan, "older-than", time.Hour, "what is younger when the list was taken is no leak")
	return cmd
}

// check refuses what cannot be read, or not again.
func (o *leaksOptions) check(watched bool) error {
	switch {
	case o.file == "":
		return exit.Usagef("name the orchestrator's list with --list FILE, or - for standard input")
	case o.file == "-" && watched:
		return exit.Usagef("--watch reads the list again and again, and standard input is read once: give --list a file")
	}
	return nil
}

// readList reads the list, and when it was taken.
func (o *leaksOptions) readList(stdin io.Reader) (*leaks.List, time.Time, error) {
	if o.file == "-" {
		list, err := leaks.Read(stdin, o.driver)
		return list, time.Now(), err
	}
	f, err := os.Open(o.file)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	list, err := leaks.Read(f, o.driver)
	return list, info.ModTime(), err
}

func (o *leaksOptions) compare(ctx context.Context, client *admin.Client, cmd *cobra.Command, list *leaks.List, taken time.Time) (*adminpb.LeaksResponse, error) {
	volumes, err := client.Volumes(ctx, &adminpb.VolumesRequest{})
	if err != nil {
		return nil, callError("list the volumes", err)
	}
	if err := leaks.CheckSite(volumes.GetVolumes(), o.site); err != nil {
		return nil, exit.Wrap(exit.Usage, err)
	}
	snapshots, err := client.Snapshots(ctx, &adminpb.SnapshotsRequest{})
	if err != nil {
		return nil, callError("list the snapshots", err)
	}
	state := leaks.State{Volumes: volumes.GetVolumes(), Snapshots: snapshots.GetSnapshots(), Site: o.site, Made: map[string]leaks.Event{}, Used: map[string]leaks.Event{}}
	if err := client.History(ctx, &adminpb.HistoryRequest{}, state.ReadHistory); err != nil {
		return nil, callError("read the history", err)
	}
	resp := leaks.Compare(list, state, leaks.Options{TakenBefore: taken.Add(-o.olderThan), Remedy: remedies(cmd.Root())})
	resp.Index, resp.Taken, resp.NotCompared = volumes.GetIndex(), taken.UTC().Format(time.RFC3339), list.Missing()
	return resp, nil
}

// remedies are the commands that end a finding; a command of ours is named where this build has it.
func remedies(root *cobra.Command) func(kind, id, record string) string {
	remove := func(what, id, instead string) string {
		if found, _, err := root.Find([]string{what, "delete"}); err == nil && found.Name() == "delete" {
			return "holdfast " + what + " delete " + id
		}
		return instead
	}
	return func(kind, id, record string) string {
		switch kind {
		case leaks.Leak:
			return remove("volumes", id, "make a PersistentVolume with volumeHandle "+id+" and reclaim policy Delete, and release it")
		case leaks.LeakedSnapshot:
			return remove("snapshots", id, "make a VolumeSnapshotContent with snapshotHandle "+id+" and deletion policy Delete, and delete it")
		case leaks.Lost:
			return "holdfast history " + id + "; then kubectl delete pv " + record
		case leaks.LostSnapshot:
			return "holdfast history " + id + "; then kubectl delete volumesnapshotcontent " + record
		case leaks.Attached:
			return "kubectl delete volumeattachment " + record
		}
		return "holdfast history " + id
	}
}
