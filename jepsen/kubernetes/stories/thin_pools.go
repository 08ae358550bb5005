package stories

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

var thinPools = story.Story{
	Name: "thin-pools", Tells: "the chart's pools are thin pools of LVM, which it makes on the nodes that have a volume group: a volume grows while its pod writes, snapshots are restored, a volume is cloned, a replicated one grows and is drained, and of all of them nothing is left in the volume groups",
	Limit: 30 * time.Minute, Tell: tellThinPools, Needs: byReplicas,
}

// onThinPools are the values of nodes with a volume group, which are labeled.
var onThinPools = []string{"--set-json", `node.pools={"dir":"","lvm":["vg0/holdfast"]}`, "--set-string", `node.nodeSelector.volumes=thin`}

func tellThinPools(ctx context.Context, t *story.Teller) (err error) {
	for n := t.Cluster.Nodes + 1; n <= t.Cluster.Started(); n++ {
		if err := makeVolumeGroup(ctx, t, n); err != nil {
			return fmt.Errorf("make a volume group on %s: %w", cluster.NodeName(n), err)
		}
	}
	defer func() { err = errors.Join(err, backToFiles(ctx, t)) }()
	err = t.Time("helm upgrade --wait to thin pools on every node that has a volume group", func() error {
		if err := helmUpgrade(ctx, t, onThinPools...); err != nil {
			return err
		}
		return offered(ctx, t, t.Cluster.Nodes+1)
	})
	if err != nil {
		return err
	}
	for _, tell := range []func(context.Context, *story.Teller) error{tellGrowth, tellSnapshot, tellReplicated} {
		if err := tell(ctx, t); err != nil {
			return err
		}
		if err := errors.Join(removeVolumes(ctx, t), onlyPools(ctx, t)); err != nil {
			return err
		}
	}
	return nil
}

// makeVolumeGroup makes one of the node's raw disk, and labels the node.
func makeVolumeGroup(ctx context.Context, t *story.Teller, number int) error {
	host, err := t.Cluster.Guest(number)
	if err != nil {
		return err
	}
	disk, err := host.Device(cluster.RawDisk)
	if err != nil {
		return err
	}
	if _, err := host.Exec(ctx, "sh", "-c", "vgs vg0 2>/dev/null || vgcreate vg0 "+disk); err != nil {
		return err
	}
	_, err = t.Kubectl(ctx, "label", "node", cluster.NodeName(number), "--overwrite", "volumes=thin")
	return err
}

// removeVolumes removes what these stories make.
func removeVolumes(ctx context.Context, t *story.Teller) error {
	return removeAll(ctx, t, "statefulsets", "pods", "volumesnapshots", "persistentvolumeclaims")
}

// onlyPools wants nothing in the volume groups but the pool and what LVM keeps for it.
func onlyPools(ctx context.Context, t *story.Teller) error {
	for n := t.Cluster.Nodes + 1; n <= t.Cluster.Started(); n++ {
		host, err := t.Cluster.Guest(n)
		if err != nil {
			return err
		}
		if err := kit.Until(ctx, patience, func() error { return onlyPool(ctx, host) }); err != nil {
			return err
		}
	}
	return nil
}

func onlyPool(ctx context.Context, host machine.Config) error {
	out, err := host.Exec(ctx, "lvs", "--noheadings", "-o", "lv_name", "vg0")
	if err != nil {
		return err
	}
	if names := strings.Fields(out); len(names) != 1 || names[0] != "holdfast" {
		return fmt.Errorf("%s has the logical volumes %s, and not the pool alone", host.Name, strings.Join(names, ", "))
	}
	return nil
}

// backToFiles gives the nodes the pools that the other stories have.
func backToFiles(ctx context.Context, t *story.Teller) error {
	return all(func() error { return removeVolumes(ctx, t) }, func() error { return helmInstall(ctx, t) })
}
