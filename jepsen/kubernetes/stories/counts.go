package stories

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

// backing is how many files of volumes the pools of all hosts have, those that a story which failed left in the cluster among them. The
// pool is the same folder with the chart and without it.
func backing(ctx context.Context, t *story.Teller) (int, error) {
	machines, err := machine.Names(t.Cluster.Dir)
	if err != nil {
		return 0, err
	}
	count := 0
	for n := 1; n <= t.Cluster.Started()+t.Cluster.Late; n++ {
		if t.Cluster.IsGuest(n) || !slices.Contains(machines, cluster.NodeName(n)) {
			continue
		}
		out, err := t.Cluster.Node(n).Exec(ctx, "find", cluster.PoolAt, "-type", "f", "-size", "+1M")
		if err != nil {
			return 0, err
		}
		count += len(strings.Fields(out))
	}
	return count, nil
}

// backingOfAll is backing once the hosts have one file for each volume of Kubernetes: what was deleted before takes a moment to be gone.
func backingOfAll(ctx context.Context, t *story.Teller) (int, error) {
	if err := sameInLog(ctx, t); err != nil {
		return 0, err
	}
	now, err := look(ctx, t)
	if err != nil {
		return 0, err
	}
	return len(now.volumes), filesAre(ctx, t, len(now.volumes))
}

func filesAre(ctx context.Context, t *story.Teller, want int) error {
	got, err := backing(ctx, t)
	if err == nil && got != want {
		err = fmt.Errorf("the hosts have %d files of volumes, not %d", got, want)
	}
	return err
}

// noneLeft wants this namespace to have no object of a resource.
func noneLeft(ctx context.Context, t *story.Teller, resource string) error {
	all, err := t.List(ctx, resource, "")
	if err == nil && len(all) > 0 {
		err = fmt.Errorf("%d %s are left, such as %s", len(all), resource, all[0].GetName())
	}
	return err
}

// noneEnding wants no claim of this namespace to wait for its end.
func noneEnding(ctx context.Context, t *story.Teller) error {
	all, err := t.List(ctx, "persistentvolumeclaims", "")
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.GetDeletionTimestamp() != nil {
			return fmt.Errorf("the claim %s is Terminating since %s, with the finalizers %v", c.GetName(), c.GetDeletionTimestamp(), c.GetFinalizers())
		}
	}
	return nil
}

// noAttachments wants nothing to say that a volume of this namespace is attached, or of a volume that there is none of.
func noAttachments(ctx context.Context, t *story.Teller) error {
	volumes, err := t.List(ctx, "persistentvolumes", "")
	if err != nil {
		return err
	}
	elsewhere := map[string]bool{}
	for _, v := range volumes {
		elsewhere[v.GetName()] = kit.Text(&v, "spec", "claimRef", "namespace") != t.Namespace
	}
	all, err := t.List(ctx, "volumeattachments", "")
	if err != nil {
		return err
	}
	for _, a := range all {
		volume := kit.Text(&a, "spec", "source", "persistentVolumeName")
		if kit.Text(&a, "spec", "attacher") == driver && !elsewhere[volume] {
			return fmt.Errorf("the VolumeAttachment %s of %s to %s is left", a.GetName(), volume, kit.Text(&a, "spec", "nodeName"))
		}
	}
	return nil
}

// sameInLog wants the log to have the volumes of the cluster's PersistentVolumes and no others.
func sameInLog(ctx context.Context, t *story.Teller) error {
	now, err := look(ctx, t)
	if err != nil {
		return err
	}
	volumes, err := t.List(ctx, "persistentvolumes", "")
	if err != nil {
		return err
	}
	for _, v := range volumes {
		if kit.Text(&v, "spec", "csi", "driver") != driver {
			continue
		}
		handle := kit.Text(&v, "spec", "csi", "volumeHandle")
		if phase := now.volumes[handle]; phase != "ready" {
			return fmt.Errorf("the volume %s of %s is %q in the log, not ready", handle, v.GetName(), phase)
		}
		delete(now.volumes, handle)
	}
	for id, phase := range now.volumes {
		return fmt.Errorf("the log has %d volumes that Kubernetes does not have, such as %s, which is %s", len(now.volumes), id, phase)
	}
	return nil
}
