package backendtest_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Boundaries lists what the gate is asked, all of it and nothing else: whoever counts boundaries
// relies on the list.
func TestEveryEffectHasItsTwoBoundaries(t *testing.T) {
	gate := &answers{}
	doEveryPoolEffect(t, gate)
	doEveryReplicaEffect(t, gate)
	asked := slices.DeleteFunc(slices.Sorted(maps.Keys(gate.names)), func(name string) bool {
		return !strings.HasSuffix(name, ".before") && !strings.HasSuffix(name, ".after")
	})
	require.Equal(t, backendtest.Boundaries(), asked)
}

func doEveryPoolEffect(t *testing.T, gate backendtest.Gate) {
	_, p := oneHost(gate, true)
	id, d := mounted(t, p)
	pool, snapshot, clone := p.Pools()[0].(executor.SnapshotBackend), backendtest.NewSnapshotID(), backendtest.NewID()
	f, err := p.Freezer().Freeze(t.Context(), id, stagedAt, time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.NoError(t, pool.TakeSnapshot(t.Context(), id, snapshot, nil))
	require.NoError(t, f.Thaw(t.Context()))
	require.NoError(t, p.Freezer().Recover(t.Context()))
	require.NoError(t, pool.CreateFrom(t.Context(), clone, 64*mib, fsm.Source{Snapshot: snapshot}, 0, nil))
	require.NoError(t, pool.RemoveSnapshot(t.Context(), snapshot))
	require.NoError(t, pool.Expand(t.Context(), id, 128*mib))
	require.NoError(t, p.FilesystemTools().ExpandFilesystem(t.Context(), d, "ext4", stagedAt))
	size, err := p.FilesystemTools().FilesystemSize(t.Context(), d, "ext4")
	require.NoError(t, err)
	require.EqualValues(t, 128*mib, size)
	require.NoError(t, p.FilesystemTools().Trim(t.Context(), d, executor.TrimOptions{Path: stagedAt, Step: mib, Before: func(context.Context, int64) error { return nil }}))
	require.NoError(t, p.FilesystemTools().ChangeUUID(t.Context(), d, executor.Filesystem{Type: "ext4", UUID: "another"}))
	require.NoError(t, p.Throttle().Apply(t.Context(), d, fsm.Limits{ReadBPS: 1}))
	require.NoError(t, p.Mounter().Shutdown(t.Context(), d))
	for _, path := range []string{boundAt, stagedAt} {
		require.NoError(t, p.Mounter().Unmount(t.Context(), d, path))
	}
	require.NoError(t, p.Mounter().RemoveTarget(t.Context(), boundAt))
	require.NoError(t, p.Pools()[0].Deactivate(t.Context(), id))
	require.NoError(t, p.Pools()[0].Remove(t.Context(), id))
}

func doEveryReplicaEffect(t *testing.T, gate backendtest.Gate) {
	d := newDRBDPair(t, gate)
	drbd := d.drbd(0)
	require.NoError(t, drbd.SetPrimary(t.Context(), d.id, false))
	require.NoError(t, drbd.Adjust(t.Context(), d.id))
	require.NoError(t, drbd.Resize(t.Context(), d.id, 64*mib, false))
	require.NoError(t, drbd.Verify(t.Context(), d.id))
	require.NoError(t, drbd.ResumeIO(t.Context(), d.id))
	require.NoError(t, drbd.SetSecondary(t.Context(), d.id))
	require.NoError(t, drbd.Invalidate(t.Context(), d.id))
	require.NoError(t, drbd.Disconnect(t.Context(), d.id))
	require.NoError(t, drbd.Detach(t.Context(), d.id, true))
	d.w.Settle()
	require.NoError(t, drbd.RemakeMetadata(t.Context(), d.id))
	require.NoError(t, drbd.Down(t.Context(), d.id))
	require.NoError(t, drbd.(executor.MetadataWiper).WipeMetadata(t.Context(), d.id))
	require.NoError(t, drbd.RemoveConfig(t.Context(), d.id))
	require.Empty(t, d.h[0].Audit().Problems())
}
