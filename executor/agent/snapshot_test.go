package agent_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func (c *testCluster) trySnapshot(id fsm.SnapshotID, source fsm.VolumeID) error {
	_, err := c.try("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateSnapshot{CreateSnapshot: &fsmpb.CreateSnapshot{
		SnapshotId: string(id), Name: "snap-" + string(id), SourceVolumeId: string(source),
	}}})
	return err
}

func (c *testCluster) startSnapshot(source fsm.VolumeID) fsm.SnapshotID {
	c.t.Helper()
	id := backendtest.NewSnapshotID()
	require.NoError(c.t, c.trySnapshot(id, source))
	return id
}

func (c *testCluster) snapshot(id fsm.SnapshotID) fsm.Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, ok := c.state.Snapshot(id); ok {
		return *n
	}
	return fsm.Snapshot{}
}

func (c *testCluster) isSnapshotReady(id fsm.SnapshotID) bool {
	return c.snapshot(id).Phase == fsm.SnapshotReady
}

func (c *testCluster) takeSnapshot(source fsm.VolumeID) fsm.SnapshotID {
	c.t.Helper()
	id := c.startSnapshot(source)
	c.eventually(func() bool { return c.isSnapshotReady(id) }, "the snapshot is ready")
	return id
}

func (c *testCluster) deleteSnapshot(id fsm.SnapshotID) error {
	_, err := c.try("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_DeleteSnapshot{DeleteSnapshot: &fsmpb.DeleteSnapshot{SnapshotId: string(id)}}})
	return err
}

// group is a group snapshot that a CO asks for repeatedly.
type group struct {
	name    string
	id      fsm.GroupSnapshotID
	members map[fsm.VolumeID]fsm.SnapshotID
}

func newGroup(sources ...fsm.VolumeID) *group {
	g := &group{id: fsm.GroupSnapshotID("hgs-" + uuid.NewString()), members: map[fsm.VolumeID]fsm.SnapshotID{}}
	for _, id := range sources {
		g.members[id] = backendtest.NewSnapshotID()
	}
	return g
}

// tryGroup asks for the group as a call does: with new ids each time. If a group of that name
// exists, that one's ids stay.
func (c *testCluster) tryGroup(g *group) error {
	fresh := newGroup(slices.Collect(maps.Keys(g.members))...)
	if g.name == "" {
		fresh, g.name = g, "group-"+string(g.id)
	}
	ask := &fsmpb.CreateGroupSnapshot{GroupSnapshotId: string(fresh.id), Name: g.name}
	for source, id := range fresh.members {
		ask.Members = append(ask.Members, &fsmpb.GroupMember{SourceVolumeId: string(source), SnapshotId: string(id)})
	}
	out, err := c.try("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateGroupSnapshot{CreateGroupSnapshot: ask}})
	if err == nil && out.GetGroupSnapshotId() == string(fresh.id) {
		g.id, g.members = fresh.id, fresh.members
	}
	return err
}

func (c *testCluster) groupSnapshot(g *group) fsm.GroupSnapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, ok := c.state.GroupSnapshot(g.id); ok {
		return *n
	}
	return fsm.GroupSnapshot{}
}

func (c *testCluster) deleteGroup(g *group) error {
	_, err := c.try("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_DeleteGroupSnapshot{DeleteGroupSnapshot: &fsmpb.DeleteGroupSnapshot{GroupSnapshotId: string(g.id)}}})
	return err
}

// onEffect calls do when the pool begins an effect, one at a time.
func (w *testHost) onEffect(name string, do func()) {
	var mu sync.Mutex
	w.pool.SetFail(func(effect string, _ fsm.VolumeID) error {
		if effect == name {
			mu.Lock()
			defer mu.Unlock()
			do()
		}
		return nil
	})
}

func TestS19_AStagedFilesystemIsFrozenForASnapshot(t *testing.T) {
	for name, copies := range map[string]bool{"a pool that shares blocks": false, "a pool that copies": true} {
		t.Run(name, func(t *testing.T) {
			w := newTestHost(t)
			w.pool.SetFullCopies(copies)
			id, _ := w.staged(mountCap)
			w.pool.Write(id, 4096, []byte("before"))
			frozen := false
			w.onEffect("cut", func() { frozen = w.freezer.isFrozen(stagingPath) })
			began := time.Now()
			snapshot := w.takeSnapshot(id)
			require.True(t, frozen)
			w.pool.Write(id, 4096, []byte("after!"))
			require.True(t, w.snapshotContains(snapshot, "before"))
			require.Zero(t, w.freezer.count(), "thawed")
			n := w.snapshot(snapshot)
			require.EqualValues(t, testSize, n.Size)
			require.False(t, n.TakenAt.Before(began), "the time of the cut")
			for range 2 {
				w.restart()
				require.Equal(t, 1, w.pool.Effects("cut", fsm.VolumeID(snapshot)))
			}
			require.Equal(t, n.TakenAt, w.snapshot(snapshot).TakenAt, "constant")
			w.eventually(func() bool { return len(w.records()) == 1 }, "only the volume has a record")
		})
	}
}

func TestS19_AnImpossibleSnapshotIsRefusedForGood(t *testing.T) {
	for name, tc := range map[string]struct {
		capability fsm.Capability
		unstaged   bool
		prepare    func(*testHost)
		want       string
	}{
		"a staged filesystem that is too much to copy": {capability: mountCap, prepare: func(w *testHost) { w.pool.SetFullCopies(true); w.pool.SetRate(1) }, want: "unstage it first"},
		"a raw volume on a pool that copies":           {capability: blockCap, prepare: func(w *testHost) { w.pool.SetFullCopies(true) }, want: "raw for writing"},
		"a raw volume on a pool that shares":           {capability: blockCap, prepare: func(*testHost) {}},
		"an unstaged one that is too much to freeze":   {capability: mountCap, unstaged: true, prepare: func(w *testHost) { w.pool.SetFullCopies(true); w.pool.SetRate(1) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestHost(t)
			id, _ := w.staged(tc.capability)
			w.pool.Write(id, 0, bytes.Repeat([]byte("x"), 1<<20))
			if tc.unstaged {
				require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
			}
			tc.prepare(w)
			snapshot := w.startSnapshot(id)
			w.eventually(func() bool { return w.snapshot(snapshot).Phase != fsm.SnapshotTaking }, "it is decided")
			n := w.snapshot(snapshot)
			if tc.want == "" {
				require.Equal(t, fsm.SnapshotReady, n.Phase, n.Error)
				return
			}
			require.Contains(t, w.failedOperation(string(snapshot)).LastError, tc.want)
			w.eventually(func() bool { return w.snapshot(snapshot).ID == "" }, "S74: nothing is left of it")
			require.Zero(t, w.pool.Snapshots())
			require.Zero(t, w.freezer.count())
			require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath), "nothing is held")
		})
	}
}

func TestS19_CallsAreBusyDuringASnapshot(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	inCut, resume := make(chan struct{}), make(chan struct{})
	w.onEffect("cut", func() { close(inCut); <-resume })
	snapshot := w.startSnapshot(id)
	<-inCut
	for range 2 {
		require.Equal(t, fsm.Busy, reasonOf(w.e.Unstage(t.Context(), id, stagingPath)))
		require.Equal(t, fsm.Busy, reasonOf(w.e.UnpublishTarget(t.Context(), id, targetPath)))
		require.Equal(t, fsm.Busy, reasonOf(w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap))))
		require.Equal(t, fsm.Busy, reasonOf(w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, mountCap))))
	}
	close(resume)
	w.eventually(func() bool { return w.isSnapshotReady(snapshot) }, "cut")
	w.eventually(func() bool { return w.e.Unstage(t.Context(), id, stagingPath) == nil }, "and free again")
}

func TestS19_ASnapshotUnderAnEndedFreezeIsNotKept(t *testing.T) {
	w := newTestHost(t)
	id, _ := w.staged(mountCap)
	once := true
	w.onEffect("cut", func() {
		if once {
			once = false
			_ = w.freezer.Recover(context.Background()) // the freeze ends in the middle
		}
	})
	snapshot := w.takeSnapshot(id)
	require.Equal(t, 2, w.pool.Effects("cut", fsm.VolumeID(snapshot)), "cut again under a freeze that held")
	require.Equal(t, 1, w.pool.Effects("remove-snapshot", fsm.VolumeID(snapshot)))
	require.Equal(t, 2, w.freezer.freezes)
}

func TestASnapshotOutlivesItsSourceUntilTheLogRemovesIt(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	snapshot := w.takeSnapshot(id)
	require.NoError(t, w.deleteVolume(id))
	w.eventually(func() bool { _, known := w.volume(id); return !known }, "the source is gone")
	require.True(t, w.hasSnapshot(snapshot), "S14")
	w.pool.LoseSnapshot(snapshot)
	w.restart()
	w.eventually(func() bool { return w.snapshot(snapshot).Missing }, "it is told that it is missing")
	require.NoError(t, w.deleteSnapshot(snapshot))
	w.eventually(func() bool { return w.snapshot(snapshot).ID == "" }, "gone")
	w.requireNothingLeft()
}

func TestAMissingSnapshotThatIsFoundAgainIsReported(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	snapshot := w.takeSnapshot(id)
	w.pool.LoseSnapshot(snapshot)
	w.restart()
	w.eventually(func() bool { return w.snapshot(snapshot).Missing }, "missing")
	require.NoError(t, w.pool.TakeSnapshot(t.Context(), id, snapshot, nil))
	w.restart()
	w.eventually(func() bool { return !w.snapshot(snapshot).Missing }, "found")
}

func TestS12_AnAbsentPoolSaysNothingOfItsSnapshots(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	snapshot := w.takeSnapshot(id)
	w.pool.SetAbsent(true)
	w.restart()
	require.NoError(t, w.deleteSnapshot(snapshot))
	w.eventually(func() bool {
		n := w.snapshot(snapshot)
		return n.Operation != nil && n.Operation.LastError != ""
	}, "it cannot be removed now")
	require.False(t, w.snapshot(snapshot).Missing)
	w.pool.SetAbsent(false)
	w.eventually(func() bool { return w.snapshot(snapshot).ID == "" }, "gone")
}

func TestAFailedSnapshotIsRetried(t *testing.T) {
	w := newTestHost(t)
	id, _ := w.staged(mountCap)
	left := 2
	w.pool.SetFail(func(effect string, _ fsm.VolumeID) error {
		if effect == "cut" && left > 0 {
			left--
			return errors.New("not now")
		}
		return nil
	})
	snapshot := w.takeSnapshot(id)
	require.Equal(t, 1, w.pool.Effects("cut", fsm.VolumeID(snapshot)))
	require.Zero(t, w.freezer.count())
}

func TestS19_AGroupIsTakenUnderOneFreezeOfAll(t *testing.T) {
	w := newTestHost(t)
	a, _ := w.staged(mountCap)
	b := w.stagedAt("/kubelet/b", mountCap)
	unstaged := backendtest.NewID()
	w.create(unstaged, mountCap)
	frozen := 0
	w.onEffect("cut", func() {
		if frozen == 0 { // the first member is taken: all are frozen
			frozen = w.freezer.count()
			require.Equal(t, fsm.Busy, reasonOf(w.e.Unstage(t.Context(), a, stagingPath)))
			require.Equal(t, fsm.Busy, reasonOf(w.e.Stage(t.Context(), executor.StageRequest{Volume: unstaged, Path: "/kubelet/c", Capability: mountCap})))
		}
	})
	g := newGroup(a, b, unstaged)
	require.NoError(t, w.tryGroup(g))
	w.eventually(func() bool { return w.groupSnapshot(g).Phase == fsm.GroupReady }, "ready")
	require.Equal(t, 2, frozen)
	w.eventually(func() bool { return w.freezer.count() == 0 }, "all are thawed")
	require.Equal(t, 3, w.pool.Snapshots())
	w.eventually(func() bool { return w.e.Unstage(t.Context(), a, stagingPath) == nil }, "and free")
	require.NoError(t, w.deleteGroup(g))
	w.eventually(func() bool { return w.pool.Snapshots() == 0 && w.groupSnapshot(g).ID == "" }, "removed")
}

// stagedAt is another volume, staged at another path.
func (w *testHost) stagedAt(path string, capability fsm.Capability) fsm.VolumeID {
	w.t.Helper()
	id := backendtest.NewID()
	w.create(id, capability)
	epoch := w.publishVolume(id, capability)
	require.NoError(w.t, w.e.Stage(w.t.Context(), executor.StageRequest{Volume: id, Epoch: epoch, Path: path, Capability: capability}))
	return id
}

func TestS19_AGroupWhoseFreezeEndsIsDiscardedWhole(t *testing.T) {
	w := newTestHost(t)
	a, _ := w.staged(mountCap)
	b := w.stagedAt("/kubelet/b", mountCap)
	g := newGroup(a, b)
	once := true
	w.onEffect("cut", func() {
		if once {
			once = false
			_ = w.freezer.Recover(context.Background())
		}
	})
	require.NoError(t, w.tryGroup(g))
	w.eventually(func() bool { return w.failedOperation(string(g.id)) != nil }, "given up")
	w.eventually(func() bool { return w.pool.Snapshots() == 0 && w.freezer.count() == 0 }, "nothing of it is left")
	w.eventually(func() bool { return w.groupSnapshot(g).Phase == 0 }, "S74: nor a record")
	g = newGroup(a, b)
	require.NoError(t, w.tryGroup(g), "the next attempt begins")
	w.eventually(func() bool { return w.groupSnapshot(g).Phase == fsm.GroupReady }, "and is ready")
}

func TestS19_AFreezeOfAnotherProcessDoesNotCount(t *testing.T) {
	w := newTestHost(t)
	a, _ := w.staged(mountCap)
	b := w.stagedAt("/kubelet/b", mountCap)
	reached, resume := w.blockEffect("unmount")
	go func() { _ = w.e.Unstage(context.Background(), b, "/kubelet/b") }()
	<-reached
	g := newGroup(a, b)
	require.NoError(t, w.tryGroup(g))
	w.eventually(func() bool { return w.snapshot(g.members[a]).Frozen }, "one is frozen, the other is busy")
	w.disconnectHost()
	w.start(nil) // another process, while the first still hangs
	require.Zero(t, w.freezer.count(), "thawed before anything else")
	w.eventually(func() bool { return w.failedOperation(string(g.id)) != nil }, "given up")
	require.Contains(t, w.failedOperation(string(g.id)).LastError, "freeze")
	resume()
	w.eventually(func() bool { return w.groupSnapshot(g).Phase == 0 }, "nothing is left of the attempt")
	g = newGroup(a, b)
	require.NoError(t, w.tryGroup(g))
	w.eventually(func() bool { return w.groupSnapshot(g).Phase == fsm.GroupReady }, "the next is ready")
}

// The freeze cannot end before the call that it makes busy: the bubble's clock stands still meanwhile.
func TestS19_AnEndedFreezeFreesTheVolumeWithoutAQuorum(t *testing.T) {
	synctest.Test(t, testS19_AnEndedFreezeFreesTheVolumeWithoutAQuorum)
}

func testS19_AnEndedFreezeFreesTheVolumeWithoutAQuorum(t *testing.T) {
	w := newStoppedHost(t)
	w.maxFreeze = 300 * time.Millisecond
	w.start(nil)
	a, _ := w.staged(mountCap)
	g := newGroup(a)
	w.freezer.onFreeze = func() { w.setDown(true) } // it can neither report that nor learn that it may take the snapshot
	require.NoError(t, w.tryGroup(g))
	w.eventually(func() bool { return w.freezer.count() == 1 }, "frozen")
	require.Equal(t, fsm.Busy, reasonOf(w.e.Unstage(t.Context(), a, stagingPath)))
	w.eventually(func() bool { return w.e.Unstage(t.Context(), a, stagingPath) == nil }, "S28: it can be taken down")
	w.setDown(false)
	w.eventually(func() bool { return w.failedOperation(string(g.id)) != nil }, "given up")
}
