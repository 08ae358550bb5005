package scenarios

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// measureFence: from the call that fences a host under a writer to its OK, and until the other site writes.
func measureFence(t *testing.T, _ *env, found *table) {
	w := newEnvOf(t, twoSites)
	a, b := w.site(t, 1), w.site(t, 2)
	for i := range *samples {
		v := a.createOverSites(t, fmt.Sprintf("fence-%d", i), true)
		unused := a.createUnused(t)
		require.NoError(t, a.publish(t.Context(), v, "n1"))
		require.NoError(t, a.stage(t.Context(), v, "n1"))
		w.awaitInSync(t, v)
		x := w.write(t, v, "n1", 1)
		_, cidrs := w.clientsOf(t, "n1")
		x.awaitBlocks(t, 30)
		began := time.Now()
		b.fence(t, cidrs, nil)
		found.row("fence of a writing host until OK", "s").addDuration(time.Since(began))
		copies, fresh := w.takeOverAt(t, b, []*volume{v}, []uint64{x.readAcks().Number})
		found.row("fence: until the other site wrote 20 blocks", "s").addDuration(time.Since(began))
		w.awaitWriterError(t, x, x.readAcks().Number)
		w.comeBack(t, a, b, cidrs, unused)
		w.failBack(t, a, b, []*volume{v}, copies, fresh)
	}
	w.noSplitBrain(t)
}

// measureReclaim compares a call that reclaims what was deleted in a volume of two replicas with fstrim of the same
// filesystem.
func measureReclaim(t *testing.T, w *env, found *table) {
	v := w.replicatedOf(t, "reclaim", reclaimSize, false)
	w.publishAndStage(t, v, "n1")
	w.awaitInSync(t, v)
	mibs := float64(deletedBytes / mi)
	for range *samples {
		var rates [2]float64
		for which, reclaim := range []func(){
			func() { require.NoError(t, w.reclaimStaged(t.Context(), v, "n1")) },
			func() { w.mustExec(t, "n1", "sync -f "+v.target()+" && fstrim "+v.target()) },
		} {
			w.writeAndDelete(t, v, "n1")
			began := time.Now()
			reclaim()
			rates[which] = mibs / time.Since(began).Seconds()
		}
		found.row(fmt.Sprintf("reclaim of %d MiB with 2 replicas: a call", deletedBytes/mi), "MiB/s").add(rates[0])
		found.row("reclaim: fstrim of the same", "MiB/s").add(rates[1])
		found.row("reclaim: a call / fstrim", "x").add(rates[0] / rates[1])
	}
	w.unstageAndUnpublish(t, v, "n1")
}

// cryptModules are what a host needs for encrypted volumes.
const cryptModules = "modprobe -a dm_crypt xts algif_skcipher algif_hash"

// makeBareCrypt encrypts a thin device by hand, of %d bytes.
const makeBareCrypt = `set -e
lvcreate -qq -y -V %db -T vg/pool -n barecrypt
printf bare | cryptsetup luksFormat --type luks2 --batch-mode --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file - /dev/mapper/vg-barecrypt
printf bare | cryptsetup open --type luks2 --key-file - /dev/mapper/vg-barecrypt barecrypt`

// measureEncryption compares a raw encrypted volume with a mapping that was made by hand, on the same pool.
func measureEncryption(t *testing.T, w *env, found *table) {
	w.mustExec(t, "n1", cryptModules)
	w.count++
	v := &volume{name: fmt.Sprintf("secret-%d", w.count), size: pathSize, block: true, secrets: map[string]string{passphrase: "canary"}}
	require.NoError(t, w.co.create(t.Context(), v, []string{"n1"}, map[string]string{"encrypted": "true"}))
	w.publishAndStage(t, v, "n1")
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		require.NoError(t, run(ctx, w.guest("n1"), "cryptsetup close barecrypt; lvremove -qq -y vg/barecrypt"))
	})
	w.mustExec(t, "n1", fmt.Sprintf(makeBareCrypt, pathSize+16*mi))
	devices := []string{v.target(), "/dev/mapper/barecrypt"}
	for _, d := range devices { // a thin pool gives out blocks as they are written
		w.mustExec(t, "n1", fmt.Sprintf("dd if=/dev/zero of=%s bs=1M count=%d oflag=direct 2>/dev/null", d, pathSize/mi))
	}
	for _, depth := range []int{1, 16} {
		w.compare(t, found, pair{"an encrypted volume", "bare cryptsetup"}, devices, depth)
	}
	for range *samples {
		began := time.Now()
		require.NoError(t, w.rotate(t.Context(), v, "n1"))
		found.row("rotation of a key, to a slot of its own", "s").addDuration(time.Since(began))
	}
	w.unstageAndUnpublish(t, v, "n1")
	require.NoError(t, w.co.delete(t.Context(), v))
}

// groupMembers is the most that a group has unless it is configured otherwise.
const groupMembers = 100

// measureGroup: all members join a group with one call, and leave it with another.
func measureGroup(t *testing.T, w *env, found *table) {
	conn, err := w.cluster.ControllerCSI(1)
	require.NoError(t, err)
	groups := volumegroup.NewControllerClient(conn)
	members, ids := w.createMany(t, groupMembers)
	w.count++
	made, err := groups.CreateVolumeGroup(t.Context(), &volumegroup.CreateVolumeGroupRequest{Name: fmt.Sprintf("group-%d", w.count)})
	require.NoError(t, err)
	id := made.GetVolumeGroup().GetVolumeGroupId()
	for range *samples {
		for _, to := range []struct {
			row string
			ids []string
		}{{"all join", ids}, {"all leave", nil}} {
			began := time.Now()
			changed, err := groups.ModifyVolumeGroupMembership(t.Context(), &volumegroup.ModifyVolumeGroupMembershipRequest{VolumeGroupId: id, VolumeIds: to.ids})
			took := time.Since(began)
			require.NoError(t, err)
			require.Len(t, changed.GetVolumeGroup().GetVolumes(), len(to.ids))
			found.row(fmt.Sprintf("a volume group of %d members: %s", groupMembers, to.row), "s").addDuration(took)
		}
	}
	_, err = groups.DeleteVolumeGroup(t.Context(), &volumegroup.DeleteVolumeGroupRequest{VolumeGroupId: id})
	require.NoError(t, err)
	require.NoError(t, w.eachOf(members, func(v *volume) error { return w.co.delete(t.Context(), v) }))
}

// createMany makes small volumes of one replica.
func (w *env) createMany(t *testing.T, n int) (all []*volume, ids []string) {
	t.Helper()
	for range n {
		w.count++
		all = append(all, &volume{name: fmt.Sprintf("member-%d", w.count), size: 4 * mi, block: true})
	}
	require.NoError(t, w.eachOf(all, func(v *volume) error { return w.co.create(t.Context(), v, nil, nil) }))
	for _, v := range all {
		ids = append(ids, v.id)
	}
	return all, ids
}

// eachOf does work for each volume, a few at a time.
func (w *env) eachOf(all []*volume, work func(*volume) error) error {
	var g errgroup.Group
	g.SetLimit(6)
	for _, v := range all {
		g.Go(func() error { return work(v) })
	}
	return g.Wait()
}
