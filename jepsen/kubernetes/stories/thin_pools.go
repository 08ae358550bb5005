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
	Name: "thin-pools", Tells: "after the other stories nothing of their volumes and snapshots is left in the nodes' volume groups",
	Limit: 10 * time.Minute, Tell: onlyPools, Needs: onThinPools,
}

// onThinPools says why the story of thin pools cannot be told.
func onThinPools(_ context.Context, t *story.Teller) error {
	if !t.Settings.ThinPools {
		return errors.New("the pools are files: give -thin-pools")
	}
	return nil
}

// valuesOfThinPools are those of the nodes with a volume group, which are labeled, instead of every node with files.
var valuesOfThinPools = []string{"--set-json", `node.pools={"dir":"","lvm":["vg0/holdfast"]}`, "--set-string", "node.nodeSelector.volumes=thin"}

// makeVolumeGroups makes one on each node with a kernel of its own: the driver makes the thin pool in it.
func makeVolumeGroups(ctx context.Context, t *story.Teller) error {
	if t.Settings.OnHosts || t.Cluster.Guests < 1 {
		return errors.New("thin pools are those of the chart, on nodes with kernels of their own: give -guests, and not -on-hosts")
	}
	for n := t.Cluster.Nodes + 1; n <= t.Cluster.Started(); n++ {
		if err := makeVolumeGroup(ctx, t, n); err != nil {
			return fmt.Errorf("make a volume group on %s: %w", cluster.NodeName(n), err)
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
