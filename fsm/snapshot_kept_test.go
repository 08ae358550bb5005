package fsm

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// keepReplica is the question of volume 1's host for the room to keep copy n.
func (w *world) keepReplica(n int, node string) *fsmpb.KeepReplica {
	w.t.Helper()
	return &fsmpb.KeepReplica{
		VolumeId: volumeID(1), NodeId: node, HostId: "host-" + node, BootId: w.bootOf(node), Attach: w.replicaSync(1, node).Attachment, SnapshotId: snapshotID(n),
	}
}

// keptFact is the host's word that copy n is in its pool.
func keptFact(n int, node string) *fsmpb.Observation {
	return &fsmpb.Observation{VolumeId: volumeID(1), SnapshotId: snapshotID(n), Fact: &fsmpb.Observation_SnapshotKept{
		SnapshotKept: &fsmpb.SnapshotKept{Attach: 1, PoolId: "pool-" + node, CutUnixNano: 77},
	}}
}

// keptCopy has the host keep copy n, with each command proposed twice.
func (w *world) keptCopy(n int, node string) *Snapshot {
	w.t.Helper()
	require.Equal(w.t, snapshotID(n), w.twice("node/"+node, w.keepReplica(n, node)).GetSnapshotId())
	w.report(node, keptFact(n, node))
	before := w.contents()
	require.Empty(w.t, w.report(node, keptFact(n, node)).GetOvertaken())
	require.Equal(w.t, before, w.contents(), "a repeated report changes nothing")
	return w.snapshot(n)
}

// newLoser is a world whose volume 1 was taken over from n1 by n2: n1 lost.
func newLoser(t testing.TB) *world { return newLoserAt(t, MaxFeatureLevel) }

func newLoserAt(t testing.TB, level uint32) *world {
	w := newReplicatedAt(t, level, protocolC)
	w.primary(1, "n1", 7)
	epoch := w.volume(1).Publication("n1").Epoch
	publicationRevoked1(w)
	takeover1(w)
	w.setUnreachable("n1", false)
	w.reportCurrent(1, "n1", ReplicaObservation{Unconfigured: true})
	w.unstaged(1, "n1", epoch)
	require.True(t, w.replicaSync(1, "n1").Outdated)
	return w
}

// resynchronised: both see both disks whole again, n2 being primary.
func (w *world) resynchronised(uuid uint64) {
	w.t.Helper()
	w.attach(1, "n1", w.replicaSync(1, "n1").Attachment+1)
	for range 2 { // again in the generation that begins with it
		primary := inSyncObservation(uuid)
		primary.Primary = true
		w.reportCurrent(1, "n2", primary)
		w.reportCurrent(1, "n1", inSyncObservation(uuid))
	}
	require.True(w.t, w.volume(1).allInSync())
}

// lostAgain: n2 continues without its peer once more.
func (w *world) lostAgain(uuid uint64) {
	w.t.Helper()
	require.Equal(w.t, peerOutdated, w.ok("node/n2", w.outdate(1, "n2", disconnectedPrimary(uuid))).GetVerdict())
	require.True(w.t, w.replicaSync(1, "n1").Outdated)
}

func (w *world) reserved(pool string) int64 {
	reserved, _ := w.s.PoolUse(PoolID(pool))
	return reserved
}

// S49: a kept copy is a record before its host makes it, and counts in the pool from then on.
func TestS49_AKeptCopyIsARecordThatCounts(t *testing.T) {
	w := newLoser(t)
	before := w.reserved("pool-n1")
	require.Equal(t, snapshotID(1), w.twice("node/n1", w.keepReplica(1, "n1")).GetSnapshotId())
	n := w.snapshot(1)
	require.Equal(t, SnapshotTaking, n.Phase)
	require.Equal(t, KeptCopy{Reason: "its peer went on without it", Generation: w.volume(1).Replication.Generation, Attachment: 1}, *n.KeptCopy)
	require.Equal(t, []any{VolumeID(volumeID(1)), HostID("host-n1"), PoolID("pool-n1"), gib}, []any{n.Source, n.Host, n.Pool, n.Size})
	require.Equal(t, before+gib, w.reserved("pool-n1"))
	_, requested := w.s.DesiredSnapshot("n1", n.ID)
	require.False(t, requested, "it is the replica's to make it")
	n = w.keptCopy(1, "n1")
	require.Equal(t, SnapshotReady, n.Phase)
	require.Equal(t, before+gib, w.reserved("pool-n1"))
	require.Equal(t, SnapshotGoalKeep, w.snapshotGoal(1))
	require.Equal(t, w.contents(), (&world{s: restored(t, w.s)}).contents())
	require.Equal(t, w.s.Hash(), restored(t, w.s).Hash())
}

// S49: one copy of each loss, under whichever id it is requested again.
func TestS49_ARepeatedLossKeepsNoSecondCopy(t *testing.T) {
	w := newLoser(t)
	w.keptCopy(1, "n1")
	require.Equal(t, snapshotID(1), w.twice("node/n1", w.keepReplica(2, "n1")).GetSnapshotId())
	require.Equal(t, 1, w.s.SnapshotCount())
}

// S49: a replica that has not lost, or another's, keeps nothing.
func TestS49_OnlyAnOutdatedReplicaIsKept(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world, *fsmpb.KeepReplica)
		actor  string
		want   Reason
	}{
		"the winner":         {change: func(w *world, c *fsmpb.KeepReplica) { *c = *w.keepReplica(1, "n2") }, actor: "node/n2", want: Precondition},
		"another host's":     {actor: "node/n2", want: Forbidden},
		"of an earlier boot": {change: func(_ *world, c *fsmpb.KeepReplica) { c.BootId = "boot-0" }, want: StaleEpoch},
		"an unknown volume":  {change: func(_ *world, c *fsmpb.KeepReplica) { c.VolumeId = volumeID(9) }, want: NotFound},
		"no id":              {change: func(_ *world, c *fsmpb.KeepReplica) { c.SnapshotId = "hs-1" }, want: Invalid},
		"no attachment":      {change: func(_ *world, c *fsmpb.KeepReplica) { c.Attach = 0 }, want: Invalid},
		"a snapshot of a user": {change: func(w *world, c *fsmpb.KeepReplica) {
			w.ready(2, create(2))
			w.takeSnapshot(5, 2)
			c.SnapshotId = snapshotID(5)
		}, want: Incompatible},
		"one being removed now": {change: func(w *world, _ *fsmpb.KeepReplica) { w.keptCopy(1, "n1"); w.ok(admin, removeCopy(1)) }, want: Busy},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLoser(t)
			c := w.keepReplica(1, "n1")
			if tc.change != nil {
				tc.change(w, c)
			}
			if tc.actor == "" {
				tc.actor = "node/n1"
			}
			w.rejected(tc.want, tc.actor, c)
		})
	}
}

func removeCopy(n int) *fsmpb.DeleteSnapshot { return &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(n)} }

// S49, S66: without room nothing is kept and so nothing is discarded; the condition says
// what to do, and it goes on when there is room.
func TestS49_WithoutRoomTheOutdatedReplicaWaits(t *testing.T) {
	w := newLoser(t)
	c := w.keepReplica(1, "n1")
	c.Facts = []*fsmpb.PoolFact{{PoolId: "pool-n1", FreeBytes: 1 << 20, Index: w.index}}
	require.Empty(t, w.twice("node/n1", c).GetSnapshotId())
	require.Zero(t, w.s.SnapshotCount())
	require.Equal(t, "the replica on node n1 is outdated and waits: what it has cannot be kept: its pool has no room for that: make room there, or, where the host keeps copies, remove one with `holdfast volumes kept remove`",
		w.s.ReplicationCondition(w.volume(1)).Message)
	require.Equal(t, w.s.Hash(), restored(t, w.s).Hash())
	w.keptCopy(1, "n1")
	require.Equal(t, "the replica on node n1 is outdated: its peer went on without it", w.s.ReplicationCondition(w.volume(1)).Message)
	c = w.keepReplica(1, "n1")
	c.Trouble = "the tool failed"
	require.Empty(t, w.twice("node/n1", c).GetSnapshotId())
	require.Contains(t, w.s.ReplicationCondition(w.volume(1)).Message, "what it has cannot be kept: the tool failed")
	w.resynchronised(8)
	require.Empty(t, w.replicaSync(1, "n1").NotKeptReason)
}

// S49: a flapping host keeps the newest losses; an older copy ends for them only where the
// volume was whole since, and else nothing is discarded.
func TestS49_AFlappingHostKeepsTheNewest(t *testing.T) {
	w := newLoser(t)
	w.keptCopy(1, "n1")
	w.resynchronised(8)
	require.False(t, w.snapshot(1).KeptCopy.Superseded.IsZero())
	w.lostAgain(8)
	w.keptCopy(2, "n1")
	w.resynchronised(9)
	w.lostAgain(9)
	w.keptCopy(3, "n1")
	require.Equal(t, SnapshotGoalRemove, w.snapshotGoal(1), "the oldest")
	require.Equal(t, SnapshotReady, w.snapshot(2).Phase)
	reserved := w.reserved("pool-n1")
	w.report("n1", goneReport(1, 0))
	_, there := w.s.Snapshot(SnapshotID(snapshotID(1)))
	require.False(t, there)
	require.Equal(t, reserved-gib, w.reserved("pool-n1"))
	require.Len(t, w.s.liveKeptCopiesOn(VolumeID(volumeID(1)), "host-n1"), maxKeptCopies)
}

// S49: what was never whole since is not removed for another one.
func TestS49_OnlyASupersededCopyIsRemovedForAnother(t *testing.T) {
	w := newLoser(t)
	w.keptCopy(1, "n1")
	for _, id := range []int{2, 3} { // by a loss each, without being whole between
		w.ok("node/n2", w.outdate(1, "n2", disconnectedPrimary(7)))
		c := w.keepReplica(id, "n1")
		if id == 2 {
			w.keptCopy(2, "n1")
			continue
		}
		require.Empty(t, w.twice("node/n1", c).GetSnapshotId())
	}
	require.Equal(t, SnapshotReady, w.snapshot(1).Phase)
	require.Contains(t, w.replicaSync(1, "n1").NotKeptReason, "as many copies of the volume as may be: remove one with `holdfast volumes kept remove`")
	w.ok(admin, removeCopy(1))
	require.Equal(t, snapshotID(3), w.ok("node/n1", w.keepReplica(3, "n1")).GetSnapshotId())
}

// S49: a copy that the log does not know, of an earlier level or of a log that was restored,
// is taken into it and never removed; that of a volume that is being deleted goes with it.
func TestS49_AnUnknownCopyIsAdopted(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(*world)
		phase  SnapshotPhase
		whole  bool
	}{
		"of a loser":                {phase: SnapshotReady},
		"of a volume that is whole": {before: func(w *world) { w.resynchronised(8) }, phase: SnapshotReady, whole: true},
		"of one that is deleted now": {before: func(w *world) {
			w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
			w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
		}, phase: SnapshotDeleting},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLoser(t)
			if tc.before != nil {
				tc.before(w)
			}
			for range 2 {
				w.report("n1", keptFact(4, "n1"))
				require.Equal(t, tc.phase, w.snapshot(4).Phase)
				require.Equal(t, tc.whole, !w.snapshot(4).KeptCopy.Superseded.IsZero())
			}
			require.Equal(t, uint64(1), w.snapshot(4).KeptCopy.Attachment)
		})
	}
	w := newLoser(t)
	strange := keptFact(4, "n1")
	strange.VolumeId = volumeID(9)
	require.Equal(t, []uint32{0, 1}, w.report("n1", strange, keptFact(5, "n2")).GetOvertaken(), "of no volume or pool that the log knows")
	require.Zero(t, w.s.SnapshotCount())
}

// S49, S74: a kept copy is removed by an operator's command, which is then pending on its
// host, in each of its phases; and with its host, or with its volume.
func TestS49_AKeptCopyEnds(t *testing.T) {
	ends := map[string]func(*world){
		"by an operator": func(w *world) { w.twice(admin, removeCopy(1)) },
		"with its volume": func(w *world) {
			w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
			w.twice(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
		},
	}
	for name, end := range ends {
		for at, make := range map[string]func(*world){
			"asked for": func(w *world) { w.ok("node/n1", w.keepReplica(1, "n1")) },
			"kept":      func(w *world) { w.keptCopy(1, "n1") },
			"missing": func(w *world) {
				w.keptCopy(1, "n1")
				w.report("n1", snapshotObservation(1, &fsmpb.SnapshotMissing{}))
			},
		} {
			t.Run(name+" when it is "+at, func(t *testing.T) {
				w := newLoser(t)
				make(w)
				w.setUnreachable("n1", true)
				end(w)
				require.Equal(t, SnapshotGoalRemove, w.snapshotGoal(1))
				require.Equal(t, []uint32{0}, w.report("n1", keptFact(1, "n1")).GetOvertaken(), "nothing is discarded on it")
				require.Equal(t, SnapshotGoalRemove, w.snapshotGoal(1))
				w.setUnreachable("n1", false)
				w.report("n1", goneReport(1, 0))
				require.Zero(t, w.s.SnapshotCount())
			})
		}
	}
	w := newLoser(t)
	w.keptCopy(1, "n1")
	w.ok(admin, &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1", Reason: "burnt"})
	require.Zero(t, w.s.SnapshotCount(), "its host is gone")
}

// S49: by itself it ends only when the volume was whole since, and is.
func TestS49_RetentionRemovesSupersededCopies(t *testing.T) {
	end := &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(1), Superseded: true}
	w := newLoser(t)
	w.keptCopy(1, "n1")
	w.rejected(Precondition, controller, end)
	w.resynchronised(8)
	whole := w.snapshot(1).KeptCopy.Superseded
	require.Equal(t, time.Duration(0), w.s.cluster.Time.Sub(whole).Round(time.Minute))
	w.lostAgain(8)
	w.rejected(Precondition, controller, end)
	w.resynchronised(9)
	require.Equal(t, whole, w.snapshot(1).KeptCopy.Superseded, "it is counted from the first time")
	w.twice(controller, end)
	require.Equal(t, SnapshotGoalRemove, w.snapshotGoal(1))

	w = newLoser(t)
	w.ready(2, create(2))
	w.takeSnapshot(1, 2)
	w.rejected(Precondition, controller, end)
}

// S49: a copy that was requested and never taken reserves nothing once both replicas are up to date.
func TestS49_ACopyNotMadeIsCancelledWhenAllReplicasAreUpToDate(t *testing.T) {
	w := newLoser(t)
	w.ok("node/n1", w.keepReplica(1, "n1"))
	w.resynchronised(8)
	require.Equal(t, SnapshotGoalRemove, w.snapshotGoal(1))
}

// S49: an operator makes a volume of it, as of any snapshot; it stays until that is made.
func TestS49_AVolumeIsMadeOfAKeptCopy(t *testing.T) {
	w := newLoser(t)
	w.keptCopy(1, "n1")
	c := create(3)
	c.Source = &fsmpb.Source{SnapshotId: snapshotID(1)}
	w.ok(controller, c)
	require.Equal(t, NodeID("n1"), w.volume(3).Replicas[0].Node)
	w.rejected(InUse, admin, removeCopy(1))
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	w.rejected(Busy, controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
}

// S72: at level 1 there is none of it.
func TestS49_Level1HasNoKeptCopies(t *testing.T) {
	w := newLoserAt(t, Level1)
	w.rejected(Unsupported, "node/n1", w.keepReplica(1, "n1"))
	w.rejected(Unsupported, "node/n1", &fsmpb.Report{NodeId: "n1", HostId: "host-n1", BootId: w.bootOf("n1"), Observations: []*fsmpb.Observation{keptFact(1, "n1")}})
	w.rejected(Unsupported, controller, &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(1), Superseded: true})
	require.False(t, slices.ContainsFunc(w.contents(), func(x any) bool { _, ok := x.(Snapshot); return ok }), fmt.Sprint(w.contents()))
}

// S49: while an older copy is being removed from a full pool, each question is answered that this is waited for, and not that
// an operator has to make room.
func TestS49_TheRemovalOfAnOlderCopyIsAwaited(t *testing.T) {
	w := newLoser(t)
	w.keptCopy(1, "n1")
	w.resynchronised(8)
	w.lostAgain(8)
	c := w.keepReplica(2, "n1")
	c.Facts = []*fsmpb.PoolFact{{PoolId: "pool-n1", FreeBytes: 1 << 20, Index: w.index}}
	for range 2 {
		require.Empty(t, w.ok("node/n1", c).GetSnapshotId())
		require.Equal(t, SnapshotGoalRemove, w.snapshotGoal(1))
		require.Equal(t, "what it has is kept when an older copy is removed", w.replicaSync(1, "n1").NotKeptReason)
	}
}

// A kept copy has the size of what its host has, and the volume's where that is not known.
func TestAKeptCopyIsOfTheSizeOfItsReplica(t *testing.T) {
	w := newReplicated(t, protocolC)
	for host, want := range map[HostID]int64{"host-n1": gib, "host-n2": 3 * gib, "host-n9": 3 * gib} {
		v := w.volume(1).withReplication()
		v.Size, v.Replicas[1].Size = 3*gib, 0
		require.Equal(t, want, newKeptCopy(&v, &Node{Host: host}, SnapshotID(snapshotID(1)), "pool").Size, host)
	}
	w.ok("node/n3", replicating("n3"))
	w.report("n3", keptFact(1, "n3"))
	require.Equal(t, gib, w.snapshot(1).Size, "found on a host without a replica")
}
