package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/replication"
)

func (d *demo) moveBack(ctx context.Context) error {
	a, b := d.sites["A"], d.sites["B"]
	if err := d.endDiary(ctx); err != nil {
		return err
	}
	if err := d.unmount(ctx, b); err != nil {
		return err
	}
	begin := time.Now()
	if err := d.demote(ctx, b); err != nil {
		return err
	}
	if _, err := d.promote(ctx, a); err != nil {
		return err
	}
	if err := d.mount(ctx, a); err != nil {
		return err
	}
	d.printStepf("from the demotion of site B until mounted at site A: %s", elapsed(begin))
	if err := errors.Join(d.verifyFiles(ctx, a), d.verifyDiary(ctx, a)); err != nil {
		return err
	}
	return d.unmount(ctx, a)
}

// roleCommands are those that decide who uses the volume, and who has everything.
var roleCommands = []string{"enable_replication", "publish_volume", "set_primary", "outdate", "promote_replication", "demote_replication", "resync_replication"}

// history prints what is remembered of the sites and the role.
func (d *demo) history(ctx context.Context) error {
	out, code, err := d.cluster.Admin(ctx, "history", d.id)
	if err != nil || code != 0 {
		return errors.Join(err, fmt.Errorf("history exited %d: %s", code, out))
	}
	before := ""
	for line := range strings.Lines(out) {
		words := strings.Fields(line) // its index, its time, who, what
		if len(words) < 4 || !slices.Contains(roleCommands, words[3]) {
			continue
		}
		if what := strings.Join(words[2:], " "); what != before { // an orchestrator repeats its calls
			d.printStepf("%-5s %s", words[0], what)
			before = what
		}
	}
	return nil
}

func (d *demo) audit(ctx context.Context) error {
	if _, err := d.awaitHealthy(ctx, d.sites["A"]); err != nil {
		return err
	}
	sums := map[string]bool{}
	for _, name := range []string{"A", "B"} {
		device := "/dev/mapper/vg-" + strings.ReplaceAll(d.id, "-", "--")
		out, err := output(ctx, d.sites[name].guest, fmt.Sprintf("dd if=%s bs=1M count=64 iflag=direct 2>/dev/null | sha256sum", device))
		if err != nil {
			return err
		}
		sums[strings.Fields(out)[0]] = true
		d.printStepf("the replica at site %s: sha256 %.12s", name, out)
	}
	if len(sums) != 1 {
		return errors.New("the replicas differ")
	}
	return retry(ctx, "audit", func(ctx context.Context) error {
		out, code, err := d.cluster.Admin(ctx, "audit")
		if err == nil && code != 0 {
			return retriable(fmt.Sprintf("exit code %d: %s", code, out))
		}
		if err == nil {
			d.printStepf("%s", strings.ReplaceAll(strings.TrimSpace(out), "\n", "\n   "))
		}
		return err
	})
}

func (d *demo) tearDown(ctx context.Context) error {
	for _, name := range []string{"B", "A"} { // the secondary's orchestrator ends its claim
		s := d.sites[name]
		err := retry(ctx, "disable the replication at site "+name, func(ctx context.Context) error {
			_, err := s.replication.DisableVolumeReplication(ctx, &replication.DisableVolumeReplicationRequest{ReplicationSource: d.source(), Parameters: s.parameters()})
			return err
		})
		if err != nil {
			return err
		}
	}
	err := retry(ctx, "delete", func(ctx context.Context) error {
		_, err := d.sites["A"].controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: d.id})
		return err
	})
	if err != nil {
		return err
	}
	d.printStepf("the replication is disabled, the volume deleted")
	if err := d.lab.Close(); err != nil {
		return err
	}
	d.lab = nil
	d.printStepf("the machines are off, their disks and networks removed")
	return nil
}
