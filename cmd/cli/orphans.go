package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/leaks"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/csi/identity"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/kube/orphans"
)

// orphansOptions are the flags of `volumes orphans`.
type orphansOptions struct {
	leaksOptions

	yes    bool
	reason string
}

func orphansCommand() *cobra.Command {
	o := orphansOptions{leaksOptions: leaksOptions{driver: identity.Name}}
	f := newListFlags(admin.LeakList)
	f.interval = lookInterval // each look reads the journal
	var cmd *cobra.Command
	cmd = f.command("orphans [ID...]", "Compare Kubernetes' volumes with the log, and delete those that Kubernetes has lost", cobra.ArbitraryArgs, changeTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, _ listing.View, ids []string) (proto.Message, error) {
			return o.run(ctx, c, client, cmd, f, ids)
		})
	cmd.Long = "Reads the PersistentVolumes, attachments and snapshots of a Kubernetes cluster (the one of the kubeconfig, or of this pod)\n" +
		"and shows what only it, or only the log, has, as `volumes leaks` does. With the ids of leaks and --yes those volumes are\n" +
		"deleted, and nothing else: one that is published, is younger than --older-than, or was made for a claim that still exists\n" +
		"is refused, and so is all of it where Kubernetes and the log have no volume in common. The log does not know which Kubernetes a\n" +
		"volume is of, but for its site: where several use one site, the others' volumes are shown too, and --yes deletes those of\n" +
		"them that are named and not published. Exit code 0: neither has anything that\n" +
		"the other lacks, which is so of two that have nothing; 1: something was found, or refused."
	flags := cmd.Flags()
	flags.StringVar(&o.site, "site", "", "the orchestrator's `site`, where several use the cluster")
	flags.DurationVar(&o.olderThan, "older-than", time.Hour, "what is younger is no orphan")
	flags.BoolVar(&o.yes, "yes", false, "delete the volumes that are named; without it, they are only shown")
	reasonFlag(cmd, &o.reason)
	return cmd
}

func (o *orphansOptions) run(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, f *listFlags, ids []string) (proto.Message, error) {
	if err := o.check(f.watch, ids); err != nil {
		return nil, err
	}
	api, namespace, err := c.kube.source.Connect()
	if err != nil {
		return nil, exit.Wrap(exit.Usage, err)
	}
	seen, err := o.look(ctx, api, cmp.Or(c.kube.namespace, namespace), client, cmd)
	if err != nil {
		return nil, err
	}
	for _, u := range seen.listed.Unreadable {
		fmt.Fprintf(cmd.ErrOrStderr(), "PersistentVolume %s is being made anew, and cannot be read: %s\n", u.Name, exit.Line(u.Why))
	}
	if !o.yes {
		return only(seen.LeaksResponse, ids), f.verdict(func() error { return refusedUnless(len(seen.GetFound()) == 0) })
	}
	return only(seen.LeaksResponse, ids), o.deleteAll(ctx, api, client, cmd, seen, ids)
}

// orphanLook is what Kubernetes has, and what only it, or only the log, has.
type orphanLook struct {
	*adminpb.LeaksResponse

	listed *orphans.Listed
	list   *leaks.List
}

// holds says why a leak may have a PersistentVolume all the same; empty: it has none.
func (l *orphanLook) holds(leak *adminpb.Leak) string {
	var names, records []string
	for _, found := range l.GetFound() {
		names = append(names, found.GetName())
	}
	for _, pv := range l.list.Volumes {
		records = append(records, pv.Name)
	}
	return l.listed.Holds(leak.GetName(), names, records)
}

func (o *orphansOptions) check(watched bool, ids []string) error {
	switch {
	case o.yes && len(ids) == 0:
		return exit.Usagef("nothing was changed: name the ids of the orphans that are to be deleted, as `holdfast volumes orphans` shows them")
	case o.yes && watched:
		return exit.Usagef("--watch shows, and --yes deletes: choose one")
	}
	for _, id := range ids {
		if o.yes && !fsm.VolumeID(id).Valid() {
			return exit.Usagef("nothing was changed: %q is no volume's id: name the orphans by their ids, as `holdfast volumes orphans` shows them", id)
		}
	}
	return nil
}

// look compares the lists as they are now.
func (o *orphansOptions) look(ctx context.Context, api kubernetes.Interface, namespace string, client *admin.Client, cmd *cobra.Command) (*orphanLook, error) {
	taken := time.Now()
	listed, err := orphans.Lists(ctx, api, namespace)
	if err != nil {
		return nil, exit.Wrap(exit.Unavailable, err)
	}
	list, err := leaks.Read(bytes.NewReader(listed.Text), o.driver)
	nothing := errors.Is(err, leaks.ErrNothing)
	if err != nil && !nothing {
		return nil, exit.Wrap(exit.Refused, err)
	}
	resp, err := o.compare(ctx, client, cmd, list, taken)
	switch all := len(resp.GetFound()) + len(resp.GetYoung()); {
	case err != nil:
		return nil, err
	case nothing && all > 0:
		return nil, exit.Refusedf("nothing was compared or changed: Kubernetes has no PersistentVolume and no snapshot of driver %s, and of the %d volumes and snapshots that the log "+
			"has for an orchestrator everything would be an orphan: is it the right cluster? One that is lost for sure goes by `holdfast volumes delete ID --even-if-orchestrated --yes`", o.driver, all)
	case !nothing && o.yes && !sharesVolumes(list, resp):
		return nil, exit.Refusedf("nothing was changed: the log has none of the %d volumes that Kubernetes has: are both of one cluster?", len(list.Volumes))
	}
	return &orphanLook{resp, listed, list}, nil
}

// sharesVolumes tells whether Kubernetes and the log have a volume in common: those of different clusters would all be orphans.
func sharesVolumes(list *leaks.List, resp *adminpb.LeaksResponse) bool {
	lost := 0
	for _, l := range resp.GetFound() {
		if l.GetKind() == leaks.Lost {
			lost++
		}
	}
	return lost < len(list.Volumes)
}

// only leaves the findings about the ids; without ids, all.
func only(resp *adminpb.LeaksResponse, ids []string) *adminpb.LeaksResponse {
	if len(ids) == 0 {
		return resp
	}
	kept := proto.CloneOf(resp)
	kept.Found = slices.DeleteFunc(kept.Found, func(l *adminpb.Leak) bool { return !slices.Contains(ids, l.GetId()) })
	kept.Young = slices.DeleteFunc(kept.Young, func(l *adminpb.Leak) bool { return !slices.Contains(ids, l.GetId()) })
	return kept
}

// deleteAll deletes what can be, and says of each of the others why not. The same command again goes on.
func (o *orphansOptions) deleteAll(ctx context.Context, api kubernetes.Interface, client *admin.Client, cmd *cobra.Command, seen *orphanLook, ids []string) error {
	refused := 0
	for _, id := range ids {
		if err := o.deleteOne(ctx, api, client, seen, id); err != nil {
			refused++
			fmt.Fprintf(cmd.ErrOrStderr(), "volume %s is left: %s\n", id, exit.Line(err))
			continue
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "volume %s is deleted\n", id)
	}
	if refused > 0 {
		return exit.Refusedf("%d of %d volumes are left", refused, len(ids))
	}
	return nil
}

func (o *orphansOptions) deleteOne(ctx context.Context, api kubernetes.Interface, client *admin.Client, seen *orphanLook, id string) error {
	v := newVolumeVerb("delete")
	v.req.Volume, v.req.Site, v.req.Reason, v.req.EvenIfOrchestrated = id, o.site, o.reason, true
	at := slices.IndexFunc(seen.GetFound(), func(l *adminpb.Leak) bool { return l.GetKind() == leaks.Leak && l.GetId() == id })
	if at < 0 {
		return o.checkDeleted(ctx, client, v)
	}
	if err := checkUnclaimed(ctx, api, seen.GetFound()[at]); err != nil {
		return err
	}
	if why := seen.holds(seen.GetFound()[at]); why != "" {
		return exit.Refusedf("%s", why)
	}
	v.yes = true
	changed, err := v.call(ctx, client)
	if err != nil {
		return callError("delete volume "+id, err)
	}
	if step := changed.GetSteps()[0]; step.GetState() == "blocked" {
		return exit.Refusedf("%s", step.GetDetail())
	}
	return nil
}

// checkDeleted is nil for a volume that the command deleted before it was interrupted. One that never was is deleted too for a plan:
// of such the history has nothing.
func (*orphansOptions) checkDeleted(ctx context.Context, client *admin.Client, v *volumeVerb) error {
	planned, err := v.call(ctx, client)
	if err != nil {
		return callError("plan its deletion", err)
	}
	if !planned.GetDone() {
		return exit.Refusedf("it is no orphan now: Kubernetes has it, or it is too young")
	}
	was := false
	err = client.History(ctx, &adminpb.HistoryRequest{Volume: v.req.GetVolume()}, func(m *adminpb.HistoryResponse) error {
		e := m.GetEntry()
		was = was || e != nil && e.GetKind() != "delete_volume" && e.GetOutcome().GetRejection() == nil
		return nil
	})
	switch {
	case err != nil:
		return callError("read its history", err)
	case !was:
		return exit.Refusedf("there is no such volume, and none in the history")
	}
	return nil
}

// checkUnclaimed refuses a volume whose PersistentVolume may be written yet.
func checkUnclaimed(ctx context.Context, api kubernetes.Interface, leak *adminpb.Leak) error {
	namespace, claim, _ := strings.Cut(leak.GetClaim(), "/")
	claimed, err := orphans.StillClaimed(ctx, api, namespace, claim, leak.GetName())
	if err != nil {
		return exit.Wrap(exit.Unavailable, err)
	}
	if claimed {
		return exit.Refusedf("its claim %s still exists, so its PersistentVolume may be written yet: delete the claim first, or wait", cmp.Or(leak.GetClaim(), "(its uid is in the volume's name)"))
	}
	return nil
}
