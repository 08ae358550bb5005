package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/replication"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

const mi = int64(1) << 20

// siteOf are the guests' sites: the witness has a controller and no storage.
var siteOf = []string{"A", "B", "W"}

// prepare makes the folder in which a kubelet has its mounts, gone with each boot.
const prepare = "mkdir -p /var/lib/kubelet; mountpoint -q /var/lib/kubelet || { mount --bind /var/lib/kubelet /var/lib/kubelet && mount --make-shared /var/lib/kubelet; }"

func (d *demo) start(ctx context.Context) (err error) {
	if d.lab, err = lab.Start(ctx, lab.Config{Holdfast: d.binary}); err != nil {
		return err
	}
	if err := lab.Build(ctx, filepath.Join(d.lab.Dir(), "bin", "writer"), "jepsen/lab/writer"); err != nil {
		return err
	}
	if err := d.lab.Boot(ctx); err != nil {
		return err
	}
	if err := d.startCluster(ctx); err != nil {
		return err
	}
	leader, err := d.cluster.Leader(ctx)
	if err != nil {
		return err
	}
	d.sites = map[string]*site{}
	for i, name := range siteOf {
		role := "follows"
		if leader == i+1 {
			role = "leads"
		}
		what := "a witness, without storage"
		if name != "W" {
			what = "a node with a thin pool"
		}
		d.printStepf("site %s, machine n%d: controller c%d, %s; %s", name, i+1, i+1, role, what)
	}
	return errors.Join(d.newSite("A", 1), d.newSite("B", 2))
}

func (d *demo) startCluster(ctx context.Context) (err error) {
	siteArgs := func(g *lab.Guest) []string { return []string{"--site", siteOf[g.Index-1]} }
	d.cluster, err = d.lab.NewCluster(ctx, lab.ClusterConfig{
		Nodes: 2, Pool: "lvm:vg/pool", Setup: "pvcreate -qq -ff -y /dev/ubdc && vgcreate -qq vg /dev/ubdc",
		ControllerArgs: []string{"--heartbeat-timeout", "2s", "--election-timeout", "2s", "--lease-timeout", "1500ms"}, ControllerArgsOf: siteArgs,
		NodeArgs: []string{"--allow-root", "/var/lib/kubelet"},
		NodeArgsOf: func(g *lab.Guest) []string {
			return append(siteArgs(g), "--replication-address", g.IP(lab.Replication))
		},
	})
	if err != nil {
		return err
	}
	for i := 1; i <= 2; i++ {
		if err := run(ctx, d.lab.Guest(i), prepare); err != nil {
			return err
		}
	}
	return d.cluster.Start(ctx)
}

func (d *demo) replicate(ctx context.Context) error {
	begin := time.Now()
	a, b := d.sites["A"], d.sites["B"]
	err := retry(ctx, "create", func(ctx context.Context) error {
		resp, err := a.controller.CreateVolume(ctx, &csi.CreateVolumeRequest{Name: "orders", CapacityRange: &csi.CapacityRange{RequiredBytes: 64 * mi},
			VolumeCapabilities: []*csi.VolumeCapability{capability}, Parameters: map[string]string{"sites": "A,B", "site": "A"}})
		d.id, d.context = resp.GetVolume().GetVolumeId(), resp.GetVolume().GetVolumeContext()
		return err
	})
	if err != nil {
		return err
	}
	d.printStepf("orders is %s, 64 MiB, %s", d.id, elapsed(begin))
	begin = time.Now()
	if err := errors.Join(d.enable(ctx, a), d.enable(ctx, b)); err != nil {
		return err
	}
	found, err := d.awaitHealthy(ctx, a)
	if err != nil {
		return err
	}
	d.printStepf("replicated, site A is primary; it is %s: %s, %s", found.GetStatus(), found.GetStatusMessage(), elapsed(begin))
	return nil
}

func (d *demo) useAtA(ctx context.Context) error {
	begin, a := time.Now(), d.sites["A"]
	if err := d.mount(ctx, a); err != nil {
		return err
	}
	d.printStepf("ext4 at %s of n1 after %s", target, elapsed(begin))
	return d.writeFile(ctx, a, "invoices")
}

// writeFile writes random bytes and notes their checksum.
func (d *demo) writeFile(ctx context.Context, s *site, name string) error {
	if err := run(ctx, s.guest, fmt.Sprintf("dd if=/dev/urandom of=%s/%s bs=1M count=8 conv=fsync 2>/dev/null", target, name)); err != nil {
		return err
	}
	sum, err := d.sumOf(ctx, s, name)
	d.sums[name] = sum
	d.printStepf("%-9s 8192 KiB written at site %s, sha256 %.12s", name, s.name, sum)
	return err
}

func (d *demo) sumOf(ctx context.Context, s *site, name string) (string, error) {
	out, err := output(ctx, s.guest, fmt.Sprintf("dd if=%s/%s bs=1M iflag=direct 2>/dev/null | sha256sum", target, name))
	return strings.Fields(out + " -")[0], err
}

// verifyFiles requires that each file is what was written.
func (d *demo) verifyFiles(ctx context.Context, s *site) error {
	for _, name := range []string{"invoices", "refunds"} {
		if d.sums[name] == "" {
			continue
		}
		sum, err := d.sumOf(ctx, s, name)
		if err != nil {
			return err
		}
		if sum != d.sums[name] {
			return fmt.Errorf("%s has sha256 %s, and had %s", name, sum, d.sums[name])
		}
		d.printStepf("%-9s sha256 %.12s at site %s, as written", name, sum, s.name)
	}
	return nil
}

func (d *demo) losePower(ctx context.Context) error {
	a := d.sites["A"]
	if err := d.keepDiary(ctx, a); err != nil {
		return err
	}
	if err := d.awaitEntries(ctx, 500); err != nil {
		return err
	}
	if err := a.guest.Crash(); err != nil {
		return err
	}
	d.diary.acked, _ = d.readAcks()
	d.printStepf("n1 is gone, with its controller, its node and whatever was not on its disk; entry %d of the diary was acknowledged last", d.diary.acked)
	return nil
}

func (d *demo) failOver(ctx context.Context) error {
	b, begin := d.sites["B"], time.Now()
	refusals, err := d.promote(ctx, b)
	if err != nil {
		return err
	}
	for _, said := range refusals {
		d.printStepf("not yet: %s", said)
	}
	d.printStepf("site B is primary after %s", elapsed(begin))
	mounting := time.Now()
	if err := d.mount(ctx, b); err != nil {
		return err
	}
	d.printStepf("mounted at site B %s later", elapsed(mounting))
	return nil
}

func (d *demo) verifyAtB(ctx context.Context) error {
	b := d.sites["B"]
	if err := errors.Join(d.verifyFiles(ctx, b), d.verifyDiary(ctx, b)); err != nil {
		return err
	}
	if err := d.writeFile(ctx, b, "refunds"); err != nil {
		return err
	}
	if err := d.keepDiary(ctx, b); err != nil {
		return err
	}
	return d.awaitEntries(ctx, 200)
}

func (d *demo) returnA(ctx context.Context) error {
	a, begin := d.sites["A"], time.Now()
	if err := a.guest.Boot(ctx); err != nil {
		return err
	}
	if err := run(ctx, a.guest, prepare); err != nil {
		return err
	}
	if err := errors.Join(d.cluster.StartGuest(ctx, 1), d.cluster.AwaitReady(ctx)); err != nil {
		return err
	}
	d.printStepf("n1 is back after %s", elapsed(begin))
	for _, force := range []bool{false, true} {
		err := d.requireRefused(ctx, fmt.Sprintf("promote site A, force %t", force), codes.Aborted, func(ctx context.Context) error { return d.promoteOnce(ctx, a, force) })
		if err != nil {
			return err
		}
	}
	return d.requireRefused(ctx, "publish at site A", codes.FailedPrecondition, func(ctx context.Context) error {
		_, err := a.controller.ControllerPublishVolume(ctx, d.publishRequest(a))
		return err
	})
}

func (d *demo) resync(ctx context.Context) error {
	a, b, begin := d.sites["A"], d.sites["B"], time.Now()
	if err := d.demote(ctx, a); err != nil {
		return err
	}
	calls, err := d.awaitReady(ctx, a)
	if err != nil {
		return err
	}
	d.printStepf("demoted, and ready after %d calls and %s, while site B writes", calls, elapsed(begin))
	found, err := d.awaitHealthy(ctx, b)
	if err != nil {
		return err
	}
	d.printSync(found)
	return nil
}

func (d *demo) printSync(found *replication.GetVolumeReplicationInfoResponse) {
	d.printStepf("it is %s: %s; the last resynchronisation copied %d KiB in %s", found.GetStatus(), found.GetStatusMessage(),
		found.GetLastSyncBytes()/1024, found.GetLastSyncDuration().AsDuration().Round(time.Millisecond))
}
