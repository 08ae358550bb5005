package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// losingN1 has lost n1, of which a sweep has written the first volume only; n2 is there.
func losingN1(t *testing.T, before func(w *world)) *world {
	w := newWorld(t)
	w.ready(1, create(1))
	before(w)
	w.ok("node/n2", register("n2"))
	w.s.sweepBudget = sweepBudget{reads: 1, writes: 1}
	w.ok(admin, &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1", Reason: "burnt"})
	require.NotEmpty(t, w.s.Cluster().Sweeps)
	return w
}

// continueSweeps proposes the batches as the leader does; it returns how many entries it took.
func (w *world) continueSweeps() (entries int) {
	for ; len(w.s.Cluster().Sweeps) > 0; entries++ {
		w.ok(controller, &fsmpb.ContinueSweep{Index: w.s.Cluster().Sweeps[0].Epoch.Index})
	}
	return entries
}

// S18, S118: the name of what a lost host was to make is free at once, and stays with who
// took it when the loss is written.
func TestS18_ANameIsFreeBeforeTheLossIsWritten(t *testing.T) {
	w := losingN1(t, func(w *world) { w.ok(controller, create(2)) })
	_, taken := w.s.VolumeByName("", "pvc-2")
	require.False(t, taken)
	again := create(3)
	again.Name = "pvc-2"
	require.Equal(t, volumeID(3), w.ok(controller, again).GetVolumeId())
	w.continueSweeps()
	v, _ := w.s.VolumeByName("", "pvc-2")
	require.Equal(t, VolumeID(volumeID(3)), v.ID)
	restored(t, w.s)
}

// The id too: what was to be made is not there any more.
func TestS18_AnIDIsFreeBeforeTheLossIsWritten(t *testing.T) {
	w := losingN1(t, func(w *world) { w.ok(controller, create(2)) })
	require.Equal(t, volumeID(2), w.ok(controller, create(2)).GetVolumeId())
	require.Equal(t, NodeID("n2"), w.volume(2).Replicas[0].Node)
	w.continueSweeps()
	require.Equal(t, NodeID("n2"), w.volume(2).Replicas[0].Node)
}

// S18 of snapshots.
func TestS18_ASnapshotsNameIsFreeBeforeTheLossIsWritten(t *testing.T) {
	w := losingN1(t, func(w *world) {
		w.ready(2, create(2))
		w.ok(controller, createSnapshot(1, 2))
	})
	name := createSnapshot(1, 2).Name
	_, taken := w.s.SnapshotByName("", name)
	require.False(t, taken)
	w.ready3(t)
	again := createSnapshot(2, 3)
	again.Name = name
	w.ok(controller, again)
	w.continueSweeps()
	n, ok := w.s.SnapshotByName("", name)
	require.True(t, ok)
	require.Equal(t, SnapshotID(snapshotID(2)), n.ID)
}

func (w *world) ready3(t *testing.T) {
	t.Helper()
	w.ready(3, create(3))
	require.Equal(t, NodeID("n2"), w.volume(3).Replicas[0].Node)
}

// S110: an operation that ended with its host is found by nobody.
func TestS110_AnOperationEndsWithItsHostAtOnce(t *testing.T) {
	var id, cut OperationID
	w := losingN1(t, func(w *world) {
		w.ready(2, create(2))
		w.staged(2, "n1", 1)
		w.ok(controller, &fsmpb.ModifyVolume{VolumeId: volumeID(2), Limits: &fsmpb.Limits{ReadIops: 100}})
		id = w.volume(2).Operation.ID
		w.ok(controller, createSnapshot(1, 2))
		cut = w.snapshot(1).Operation.ID
	})
	for _, body := range []uint64{uint64(id), uint64(cut)} {
		w.rejected(NotFound, admin, &fsmpb.CancelOperation{OperationId: body})
		w.rejected(NotFound, admin, &fsmpb.RetryOperation{OperationId: body})
	}
}

// S116: what was being made on a lost host keeps nobody from deleting its source.
func TestS116_ASourceIsFreeBeforeTheLossIsWritten(t *testing.T) {
	w := losingN1(t, func(w *world) {
		w.ready(2, create(2))
		w.formatted()
		c := create(3)
		c.Source = &fsmpb.Source{VolumeId: volumeID(2)}
		w.ok(controller, c)
	})
	w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(2)})
}

// S17, S108: a lost host's name and pools are given again once nothing of it is counted
// there; its successor is told to try again.
func TestS17_ANameIsGivenAgainOnceTheLossIsWritten(t *testing.T) {
	w := losingN1(t, func(w *world) { w.ready(2, create(2)) })
	next := register("n1")
	next.HostId = "host-next"
	w.rejected(Busy, "node/n1", next)
	elsewhere := register("n3")
	elsewhere.Pools[0].PoolId = "pool-n1"
	w.rejected(Busy, "node/n3", elsewhere)
	w.continueSweeps()
	w.ok("node/n1", next)
	reserved, volumes := w.s.PoolUse("pool-n1")
	require.Zero(t, reserved+int64(volumes))
}

// S5, S2: a host that was booted again holds no grant and no replica that is up to date
// from its entry on, however much of that is written.
func TestS5_ANewBootCountsBeforeItIsWritten(t *testing.T) {
	w := newPair(t)
	for n := 1; n <= 3; n++ {
		w.readyReplicated(n, createReplicated(n, protocolC))
	}
	w.s.sweepBudget = sweepBudget{reads: 1, writes: 1}
	w.reboot("n1")
	require.NotEmpty(t, w.s.Cluster().Sweeps)
	for n := 1; n <= 3; n++ {
		require.False(t, w.replicaSync(n, "n1").UpToDate)
		require.Zero(t, w.replicaSync(n, "n1").Observed)
	}
	w.attach(3, "n1", 2) // and what it says under the new boot stays
	attached := *w.volume(3)
	w.continueSweeps()
	require.Equal(t, attached, *w.volume(3))
}

// S4: a batch that comes late, or twice, changes nothing.
func TestS4_ALateBatchChangesNothing(t *testing.T) {
	w := losingN1(t, func(w *world) { w.ready(2, create(2)) })
	lost := w.s.Cluster().Sweeps[0].Epoch.Index
	w.continueSweeps()
	w.ok("node/n1", func() *fsmpb.RegisterNode { r := register("n1"); r.HostId = "host-next"; return r }())
	c := create(3)
	c.Requisite = []*fsmpb.Topology{{Segments: []*fsmpb.Label{{Key: TopologyKey, Value: "n1"}}}}
	w.ok(controller, c)
	hash := w.contents()
	w.ok(controller, &fsmpb.ContinueSweep{Index: lost})
	require.Equal(t, hash, w.contents())
}

// What a host's loss, its new boot or a restore costs an entry is bounded, whatever the
// host held.
func TestASweepCostsAnEntryNoMoreThanABatch(t *testing.T) {
	n := "node-1"
	boot := register(n)
	boot.HostId, boot.BootId, boot.Pools[0].PoolId = uuidOf(-2), "boot-2", "2e1c7f3a-6d1e-4a51-9a5e-0c54f7d7e0b1"
	w := largeState(t, 900)
	for _, c := range []struct {
		actor string
		body  proto.Message
	}{
		{"node/" + n, boot},
		{admin, &fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: bytesOf("2", 16)}},
		{admin, &fsmpb.LoseNode{NodeId: n, HostId: uuidOf(-2)}},
	} {
		before := w.s.writes
		w.ok(c.actor, c.body)
		require.LessOrEqual(t, w.s.writes-before, uint64(defaultSweepBudget.writes)+8)
		for len(w.s.Cluster().Sweeps) > 0 {
			before = w.s.writes
			w.ok(controller, &fsmpb.ContinueSweep{Index: w.s.Cluster().Sweeps[0].Epoch.Index})
			require.LessOrEqual(t, w.s.writes-before, uint64(defaultSweepBudget.writes)+8)
		}
	}
}

// S118: a sweep that has written what one entry may write goes on with the next entry, also where it could read more.
func TestS118_ASweepThatMayWriteNoMoreIsNotDone(t *testing.T) {
	lost := func(budget sweepBudget) *world {
		w := newWorld(t)
		for n := range 3 {
			w.ready(n+1, create(n+1))
		}
		w.s.sweepBudget = budget
		w.ok(admin, &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1", Reason: "burnt"})
		return w
	}
	atOnce, inParts := lost(sweepBudget{reads: 1 << 30, writes: 1 << 30}), lost(sweepBudget{reads: 10, writes: 1})
	require.Empty(t, atOnce.s.Cluster().Sweeps)
	require.GreaterOrEqual(t, inParts.continueSweeps(), 2)
	for n := range 3 {
		require.Equal(t, atOnce.volume(n+1).replicaStates(), inParts.volume(n+1).replicaStates())
		require.NotEqual(t, ReplicaPresent, inParts.volume(n + 1).Replicas[0].State)
	}
}

// S118, S1: so does the one that follows a restore.
func TestS118_ARestoresSweepThatMayWriteNoMoreIsNotDone(t *testing.T) {
	w := newHosts(t, Level2, 2)
	for n := range 3 {
		w.ok(controller, createBetween(n+1, "n1", "n2"))
		w.readyBetween(n + 1)
		require.True(t, w.replicaSync(n+1, "n1").UpToDate)
	}
	w.s.sweepBudget = sweepBudget{reads: 10, writes: 1}
	w.ok(admin, &fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: bytesOf("2", 16)})
	require.GreaterOrEqual(t, w.continueSweeps(), 2)
	for n := range 3 {
		require.False(t, w.replicaSync(n+1, "n1").UpToDate, "volume %d", n+1)
	}
}
