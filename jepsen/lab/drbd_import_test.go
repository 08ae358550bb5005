package lab_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// TestDRBDImport: pairs that DRBD kept without Holdfast become replicated volumes as they are: one with metadata of this
// kernel's, which were written by it, and one with metadata of DRBD 9, made by its tools.
func TestDRBDImport(t *testing.T) {
	l := lab.New(t, lab.Config{Guests: 2, Disks: []int64{600 << 20}})
	l.MustBoot(t)
	c, err := l.NewCluster(t.Context(), lab.ClusterConfig{
		Controllers: 1, Pool: "lvm:vg/pool", Setup: "pvcreate -qq -ff -y /dev/ubdc && vgcreate -qq vg /dev/ubdc",
		NodeArgsOf: func(g *lab.Guest) []string { return []string{"--replication-address", g.IP(lab.Replication)} },
	})
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	require.NoError(t, c.AwaitReady(t.Context()))
	conn, err := c.ControllerCSI(1)
	require.NoError(t, err)
	w := &importedPairs{sites: sites{t, l}, c: c, controller: csi.NewControllerClient(conn)}
	for n := siteA; n <= siteB; n++ {
		for path, text := range map[string]string{"/lab/sites.sh": sitesScript, "/lab/handler": handlerScript} {
			require.NoError(t, l.Guest(n).Put(t.Context(), path, []byte(text), 0o755))
		}
	}
	w.keptByDRBD("v7")
	w.keptByDRBD("v8")
	w.withMetadataOfDRBD9("v8")
	for _, v := range []string{"v7", "v8"} {
		w.requireImported(v)
	}
}

type importedPairs struct {
	sites
	c          *lab.Cluster
	controller csi.ControllerClient
}

// keptByDRBD makes a pair with a file on it, used and taken down as an operator does.
func (w *importedPairs) keptByDRBD(v string) {
	w.Helper()
	w.newPair(v)
	dev := "/dev/drbd10" + strings.TrimPrefix(v, "v")
	w.on(siteA, fmt.Sprintf("mkfs.ext4 -q -b 4096 %[1]s 7168; mount %[1]s /m; echo kept %[2]s >/m/file; umount /m; drbdadm secondary %[2]s", dev, v))
	w.on(siteB, "drbdadm invalidate "+v+"; await "+v+" ds:UpToDate/UpToDate; synced "+v+" 1") // both bitmaps are empty on disk after it
	w.on(siteA, "await "+v+" ds:UpToDate/UpToDate; synced "+v+" 1")
	w.on(siteA, "drbdadm down "+v)
	w.on(siteB, "drbdadm down "+v)
	w.both("drbdadm apply-al " + v + "; rm /etc/drbd.d/" + v + ".res; dmesg -C")
}

// withMetadataOfDRBD9 gives the pair metadata as LINSTOR's have: larger ones, for seven peers.
func (w *importedPairs) withMetadataOfDRBD9(v string) {
	w.Helper()
	w.both("export v=" + v + `
echo yes | drbdmeta --force - v08 /dev/vg/$v internal wipe-md >/dev/null 2>&1
drbdmeta --force - v09 /dev/vg/$v internal create-md 7 >/dev/null 2>&1
drbdmeta - v09 /dev/vg/$v internal dump-md >/run/md
sed -i -e "s/^node-id -1/node-id $N/" -e 's/^current-uuid .*/current-uuid 0xA1B2C3D4E5F60718;/' -e 's/^flags .*/flags 0x00000091;/' \
  -e 's/^la-size-sect 0/la-size-sect 65536/' -e "/^peer.$((3-N))\]/,/^}/s/bitmap-index -1/bitmap-index 0/" /run/md
drbdmeta --force - v09 /dev/vg/$v internal restore-md /run/md >/run/said 2>&1 || { cat /run/said; exit 1; }`)
}

// requireImported imports the pair, reads and writes it at one host, and reads what was written at the other.
func (w *importedPairs) requireImported(v string) {
	w.Helper()
	var plan importPlan
	command := []string{"import", "drbd", v, "--replica", "n1:vg/" + v, "--replica", "n2:vg/" + v}
	w.c.MustAsk(w, &plan, command...)
	require.Equal(w, 1, len(plan.inState("todo")), "blocked: %+v; all: %+v", plan.inState("blocked"), plan)
	command = append(command, "--yes", "--host-id", plan.HostID, "--device-id", plan.DeviceID)
	lab.Await(w, stepPatience, v+" is imported", func() (bool, string) {
		plan = importPlan{}
		err := w.c.Ask(w.Context(), &plan, command...)
		done := plan.inState("done")
		return err == nil && len(done) == 1 && done[0].Volume != "", fmt.Sprintf("%+v %v", plan, err)
	})
	id := plan.inState("done")[0].Volume
	require.Equal(w, "kept "+v+"\n", w.use(2, id, "cat %s/file && echo written >%[1]s/more"))
	require.Equal(w, "written\n", w.use(1, id, "cat %s/more"))
	w.both("grep -q 'ds:UpToDate/UpToDate' /proc/drbd; if grep -E 'cs:Sync|ds:.*Inconsistent' /proc/drbd || dmesg | grep 'Began resync'; then exit 1; fi; find /var/lib/holdfast -path '*/drbd-metadata/" + id + ".md' | grep -q .")
}

type importStep struct{ Action, State, Volume, Detail string }

// importPlan is what is read of a plan.
type importPlan struct {
	HostID   string `json:"host_id"`
	DeviceID string `json:"device_id"`
	Steps    []importStep
}

func (p importPlan) inState(state string) (all []importStep) {
	for _, s := range p.Steps {
		if s.State == state {
			all = append(all, s)
		}
	}
	return all
}

// use publishes and stages the volume at a host, runs a script with its path, and takes it down.
func (w *importedPairs) use(n int, id, script string) string {
	w.Helper()
	node, at := fmt.Sprint("n", n), "/var/lib/kubelet/"+id
	conn, err := w.c.NodeCSI(n)
	require.NoError(w, err)
	host := csi.NewNodeClient(conn)
	published := retry(w.T, "publish", func(ctx context.Context) (*csi.ControllerPublishVolumeResponse, error) {
		return w.controller.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: node, VolumeCapability: capability})
	})
	w.l.Guest(n).MustExec(w, "mkdir -p "+at)
	retry(w.T, "stage", func(ctx context.Context) (*csi.NodeStageVolumeResponse, error) {
		return host.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: at, VolumeCapability: capability, PublishContext: published.GetPublishContext()})
	})
	said := w.l.Guest(n).MustExec(w, fmt.Sprintf(script, at)+" && sync -f "+at)
	retry(w.T, "unstage", func(ctx context.Context) (*csi.NodeUnstageVolumeResponse, error) {
		return host.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: at})
	})
	retry(w.T, "unpublish", func(ctx context.Context) (*csi.ControllerUnpublishVolumeResponse, error) {
		return w.controller.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: node})
	})
	return said
}
