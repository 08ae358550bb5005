package backendtest_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// idleImage is a volume of the world's pool that was written to after its snapshot was taken.
func idleImage(t *testing.T, h *backendtest.Host, p *backendtest.Process) (fsm.VolumeID, fsm.SnapshotID) {
	t.Helper()
	id, snapshot, pool := backendtest.NewID(), backendtest.NewSnapshotID(), h.Pool(worldPool)
	require.NoError(t, p.Pools()[0].Create(t.Context(), id, 64*mib))
	pool.Write(id, 0, []byte("kept"))
	pool.Sync(id)
	require.NoError(t, snapshotsOf(p).TakeSnapshot(t.Context(), id, snapshot, nil))
	pool.Write(id, 0, []byte("lost"))
	pool.Write(id, mib, []byte("more"))
	pool.Sync(id)
	return id, snapshot
}

func snapshotsOf(p *backendtest.Process) executor.SnapshotBackend {
	return p.Pools()[0].(executor.SnapshotBackend)
}

// RewriteBoundaries lists what the gate is asked, beside the copying of blocks, and nothing else.
func TestEveryEffectOfARewriteHasItsTwoBoundaries(t *testing.T) {
	gate := &answers{}
	h, p := oneHost(gate, true)
	id, snapshot := idleImage(t, h, p)
	gate.names = nil
	require.NoError(t, snapshotsOf(p).Revert(t.Context(), id, snapshot))
	require.NoError(t, snapshotsOf(p).Shrink(t.Context(), id, mib))
	asked := slices.DeleteFunc(slices.Sorted(maps.Keys(gate.names)), func(name string) bool { return strings.HasPrefix(name, "pool.copy.") })
	require.Equal(t, backendtest.RewriteBoundaries(), asked)
}

// Wherever the process or the power ends, the old image or the reverted one has the name, whole.
func TestAnInterruptedRewriteLeavesAWholeImage(t *testing.T) {
	for _, at := range append(backendtest.RewriteBoundaries(), "pool.copy.before", "pool.copy.after") {
		for name, end := range map[string]func(h *backendtest.Host, p *backendtest.Process){
			"killed":     func(_ *backendtest.Host, p *backendtest.Process) { p.Kill() },
			"power loss": func(h *backendtest.Host, _ *backendtest.Process) { h.PowerLoss(nil); h.Boot() },
		} {
			t.Run(at+" "+name, func(t *testing.T) { testInterruptedRewrite(t, at, end) })
		}
	}
}

func testInterruptedRewrite(t *testing.T, at string, end func(h *backendtest.Host, p *backendtest.Process)) {
	gate := &answers{}
	h, p := oneHost(gate, true)
	id, snapshot := idleImage(t, h, p)
	pool := h.Pool(worldPool)
	old, want := pool.Content(id), mustContent(t, pool, snapshot)
	gate.at, gate.do = at, func(backendtest.Boundary) backendtest.Answer { gate.at = ""; end(h, p); return backendtest.Answer{} }
	if snapshotsOf(p).Revert(t.Context(), id, snapshot) == nil {
		require.Equal(t, want, pool.Content(id))
		require.Error(t, snapshotsOf(p).Shrink(t.Context(), id, mib))
	}
	require.Empty(t, gate.at, "it passed there")
	have := pool.Content(id)
	if have.Size == mib {
		have = want // it was shrunk, too
	}
	require.Contains(t, []backendtest.FakeContent{old, want}, have)
	p = h.StartProcess()
	d, err := p.Pools()[0].Observe(t.Context(), id)
	require.NoError(t, err)
	require.True(t, d.Exists)
	require.NoError(t, snapshotsOf(p).Revert(t.Context(), id, snapshot))
	require.Equal(t, want, pool.Content(id))
	require.NoError(t, snapshotsOf(p).Shrink(t.Context(), id, mib))
	require.EqualValues(t, mib, pool.Content(id).Size)
	require.Empty(t, h.Audit().Unfinished)
}

func mustContent(t *testing.T, pool *backendtest.Pool, id fsm.SnapshotID) backendtest.FakeContent {
	t.Helper()
	content, exists := pool.SnapshotContent(id)
	require.True(t, exists)
	return content
}

// revertedReplica is a pair whose second replica was reverted to a snapshot that was taken before the
// last acknowledged write.
func revertedReplica(t *testing.T) *drbdPair {
	d := newDRBDPair(t, nil)
	w, snapshot, pool := d.use(0, true), backendtest.NewSnapshotID(), snapshotsOf(d.p[1])
	first := write(t, w)
	require.NoError(t, w.Sync())
	d.w.Settle()
	require.NoError(t, pool.TakeSnapshot(t.Context(), d.id, snapshot, nil))
	write(t, w)
	require.NoError(t, w.Sync())
	d.w.Settle()
	d.requireKept(0, 1)
	require.Equal(t, fsm.InUse, reasonOf(pool.Revert(t.Context(), d.id, snapshot)), "its disk is attached")
	require.NoError(t, d.drbd(1).Down(t.Context(), d.id))
	require.NoError(t, d.p[1].Pools()[0].Deactivate(t.Context(), d.id))
	require.NoError(t, pool.Revert(t.Context(), d.id, snapshot))
	require.Equal(t, mustContent(t, d.h[1].Pool("hp-n2"), snapshot), d.h[1].Pool("hp-n2").Content(d.id))
	require.Equal(t, []backendtest.Stamp{first}, d.h[1].DiskStamps(d.id))
	d.activate(1, 0)
	require.True(t, d.status(1).HasMetadata, "the snapshot has them, too")
	return d
}

// The metadata of a reverted replica are of another time: their bitmap and their generations prove
// nothing.
func TestARevertedReplicaIsCopiedWhollyOnceItsMetadataAreRemade(t *testing.T) {
	d := revertedReplica(t)
	require.NoError(t, d.drbd(1).RemakeMetadata(t.Context(), d.id))
	d.attach(1)
	d.w.Settle()
	require.Equal(t, diskUpToDate, d.status(1).Disk)
	d.requireKept(0, 1)
}

func TestAShrunkReplicaHasNoMetadata(t *testing.T) {
	d := revertedReplica(t)
	pool := d.p[1].Pools()[0]
	require.NoError(t, d.drbd(1).RemoveConfig(t.Context(), d.id))
	require.NoError(t, pool.Deactivate(t.Context(), d.id))
	before := d.h[1].DiskStamps(d.id)
	require.NoError(t, pool.(executor.SnapshotBackend).Shrink(t.Context(), d.id, 64*mib))
	require.Equal(t, before, d.h[1].DiskStamps(d.id), "the content stays")
	d.activate(1, 0)
	require.False(t, d.status(1).HasMetadata)
}
