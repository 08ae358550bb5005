package scenarios

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/stretchr/testify/require"
)

// The other site's pool is full, then its disk fails, then it hangs: no write of the primary waits for it longer than
// what DRBD is configured to, and the replication is not called healthy meanwhile (S66).
func TestS38_S66_TheOtherSitesDiskStopsNoWrite(t *testing.T) {
	impatient := twoSites
	impatient.impatient = true
	w := newEnvOf(t, impatient)
	a, b := w.site(t, 1), w.site(t, 2)
	for _, tc := range []struct {
		name        string
		fault, undo func(*testing.T, *env, *volume, string)
	}{
		{"its pool is full", func(t *testing.T, w *env, _ *volume, node string) { w.fillPool(t, node) },
			func(t *testing.T, w *env, _ *volume, node string) { w.emptyPool(t, node) }},
		{"its disk fails", func(t *testing.T, w *env, v *volume, node string) { w.failDisk(t, v, node) },
			func(t *testing.T, w *env, v *volume, node string) { w.repairDisk(t, v, node) }},
		{"its disk hangs", hangDiskOf, resumeDiskOf},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRelation(t, a, b, "slow", true)
			r.use(t, a)
			r.awaitStatus(t, a, replication.GetVolumeReplicationInfoResponse_HEALTHY)
			va, vb := r.volumes[a][0], r.volumes[b][0]
			na, nb := a.host(t, va), b.host(t, vb)
			w.mustExec(t, na, "dmesg -C")
			tc.fault(t, w, vb, nb)
			w.mustExec(t, na, fmt.Sprintf("dd if=/dev/urandom of=%s bs=1M seek=8 count=8 oflag=direct 2>/dev/null", va.target()))
			w.awaitKernel(t, va, na, timeout, "it goes on without its peer", func(d drbdState) bool { return d.peerDisk != "UpToDate" && !d.suspended })
			r.writer.awaitBlocks(t, 50)
			r.requireNotHealthy(t, a)
			r.requireBounded(t, na)
			tc.undo(t, w, vb, nb)
			r.awaitInSync(t)
			r.awaitStatus(t, a, replication.GetVolumeReplicationInfoResponse_HEALTHY)
			r.end(t, a)
			r.judge(t)
			r.remove(t, a)
		})
	}
}

func hangDiskOf(t *testing.T, w *env, v *volume, node string) {
	w.mustExec(t, node, fmt.Sprintf("dmsetup suspend --noflush --nolockfs %s", v.device()))
}

func resumeDiskOf(t *testing.T, w *env, v *volume, node string) {
	w.mustExec(t, node, fmt.Sprintf("dmsetup resume %s", v.device()))
}

// requireNotHealthy asks for the replication for some seconds.
func (r *relation) requireNotHealthy(t *testing.T, s *site) {
	t.Helper()
	for range 5 {
		found, err := r.info(t.Context(), s)
		require.NoError(t, err)
		require.NotEqual(t, replication.GetVolumeReplicationInfoResponse_HEALTHY, found.GetStatus(), found.GetStatusMessage())
	}
}

// waitedForPeer is the kernel's line of a peer that took too long, with the milliseconds that it waited at most.
var waitedForPeer = regexp.MustCompile(`Remote failed to finish a request within (\d+)ms`)

// peerPatience is how long a write may wait for the peer (ko-count times timeout), and loadFactor how many times longer
// guests that share a machine may take to notice.
const (
	peerPatience = 2 * time.Second
	loadFactor   = 15
)

// requireBounded requires of what the primary's kernel says that it waited for its peer no longer than it is configured
// to, and of its writer that no write took much longer.
func (r *relation) requireBounded(t *testing.T, node string) {
	t.Helper()
	log := r.w.mustExec(t, node, "dmesg")
	for _, m := range waitedForPeer.FindAllStringSubmatch(log, -1) {
		ms, err := strconv.ParseInt(m[1], 10, 64)
		require.NoError(t, err)
		t.Logf("the kernel waited for its peer for %d ms", ms)
		require.LessOrEqual(t, time.Duration(ms)*time.Millisecond, peerPatience)
	}
	longest := r.writer.readAcks().Longest
	t.Logf("the longest write took %s", longest.Round(time.Millisecond))
	require.Less(t, longest, loadFactor*peerPatience)
}
