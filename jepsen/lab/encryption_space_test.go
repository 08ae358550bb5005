package lab_test

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	reclaim "github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// ballast is what is written and deleted, in bytes.
const ballast = 64 << 20

// writeAndDelete leaves the pool with what a file of the volume had.
func (w *cryptNode) writeAndDelete(v *csi.Volume) {
	w.Helper()
	lab.AwaitInodeTables(w, w.g, 2*time.Minute)
	w.g.MustExec(w, "dd if=/dev/urandom of="+path(v)+"/ballast bs=1M count="+strconv.Itoa(ballast>>20)+" conv=fsync 2>/dev/null && rm "+path(v)+"/ballast && sync -f "+path(v))
}

// allocated is how many bytes the thin pool has for the volume, as LVM says.
func (w *cryptNode) allocated(v *csi.Volume) float64 {
	w.Helper()
	out := strings.Fields(w.g.MustExec(w, "lvs --noheadings --nosuffix --units b -o lv_size,data_percent vg/"+v.GetVolumeId()))
	require.Len(w, out, 2)
	size, err := strconv.ParseFloat(out[0], 64)
	require.NoError(w, err)
	percent, err := strconv.ParseFloat(out[1], 64)
	require.NoError(w, err)
	return size * percent / 100
}

func (w *cryptNode) tryReclaim(ctx context.Context, v *csi.Volume) (*reclaim.NodeReclaimSpaceResponse, error) {
	conn, err := w.c.NodeCSI(1)
	require.NoError(w, err)
	return reclaim.NewReclaimSpaceNodeClient(conn).NodeReclaimSpace(ctx, &reclaim.NodeReclaimSpaceRequest{VolumeId: v.GetVolumeId(), StagingTargetPath: path(v)})
}

// reclaims: with encryptionDiscards at least 95 % of what was deleted is back in the pool, and what is beside it is as it
// was (S61).
func (w *cryptNode) reclaims(v *csi.Volume) {
	w.Helper()
	w.writeAndDelete(v)
	before := w.allocated(v)
	resp := retry(w, "reclaim", func(ctx context.Context) (*reclaim.NodeReclaimSpaceResponse, error) { return w.tryReclaim(ctx, v) })
	back := before - w.allocated(v)
	w.Logf("of %d bytes that were deleted %.0f are back in the pool", ballast, back)
	require.GreaterOrEqual(w, back, 0.95*ballast)
	require.GreaterOrEqual(w, float64(resp.GetPreUsage().GetUsageBytes()-resp.GetPostUsage().GetUsageBytes()), 0.95*ballast)
	require.Equal(w, plaintext+"\n", w.g.MustExec(w, "cat "+path(v)+"/file"))
}

// keepsDiscardsBack: without it a reclaim is UNIMPLEMENTED, the pool has what it had, and so has the filesystem (S61).
func (w *cryptNode) keepsDiscardsBack(v *csi.Volume) {
	w.Helper()
	w.stageOK(v)
	w.write(v)
	w.writeAndDelete(v)
	before := w.allocated(v)
	lab.Await(w, 2*time.Minute, "a refusal of the reclaim", func() (bool, string) {
		_, err := w.tryReclaim(w.Context(), v)
		return status.Code(err) == codes.Unimplemented, status.Code(err).String()
	})
	w.g.MustExec(w, "! fstrim "+path(v)+" 2>/dev/null") // nor does the kernel let one pass
	require.GreaterOrEqual(w, w.allocated(v), before, "nothing is given back")
	require.Equal(w, plaintext+"\n", w.g.MustExec(w, "cat "+path(v)+"/file"))
	w.unstage(v)
	w.remove(v)
}

// restoreHeader shows the plan of that, then carries it out.
func (w *cryptNode) restoreHeader(v *csi.Volume) {
	w.Helper()
	var plan struct {
		HostID string `json:"host_id"`
	}
	w.c.MustAsk(w, &plan, "volumes", "restore-header", v.GetVolumeId())
	w.c.MustAdmin(w, "volumes", "restore-header", v.GetVolumeId(), "--yes", "--host-id", plan.HostID)
}
