package agent_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func (w *testHost) replaceIncarnation() uint64 {
	w.t.Helper()
	w.mu.Lock()
	now := w.state.Cluster().Incarnation + 1
	w.mu.Unlock()
	w.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_ReplaceIncarnation{ReplaceIncarnation: &fsmpb.ReplaceIncarnation{
		Counter: now, IncarnationId: []byte("fedcba9876543210"),
	}}})
	return now
}

func TestS1_InAdoptionModeNothingIsEnabledNorDeleted(t *testing.T) {
	w := newTestHost(t)
	deleted := backendtest.NewID()
	w.create(deleted, mountCap)
	id, epoch := w.staged(mountCap)
	before, _ := w.e.ActedEpoch()
	now := w.replaceIncarnation()
	require.NoError(t, w.deleteVolume(deleted))
	wanted := backendtest.NewID()
	_, _ = w.try("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: string(wanted), Name: "pvc", RequiredBytes: testSize, Capabilities: []*fsmpb.Capability{proto(mountCap)},
	}}})
	for range 2 {
		w.restart()
		require.Equal(t, fsm.Precondition, reasonOf(w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap))))
		require.Equal(t, fsm.Precondition, reasonOf(w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, mountCap))))
	}
	require.Equal(t, 2, w.pool.Images())
	require.Zero(t, w.pool.Effects("remove", deleted))
	mounts, _ := w.mounter.leftovers()
	require.Len(t, mounts, 1, "what is up stays up")
	after, _ := w.e.ActedEpoch()
	require.Equal(t, before, after, "what was acted on does not move")

	w.must("admin/a", &fsmpb.Command{Body: &fsmpb.Command_AdoptNode{AdoptNode: &fsmpb.AdoptNode{
		NodeId: "n1", HostId: string(w.host.ID), Incarnation: now,
	}}})
	w.restart()
	w.eventually(func() bool { return w.pool.Effects("remove", deleted) == 1 }, "the operator's word counts")
	w.eventually(func() bool { at, _ := w.e.ActedEpoch(); return at.Incarnation == now }, "it acted for the new incarnation")
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
}

func TestS2_WhatWasInterruptedIsNotResumedButTakenDown(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	epoch := w.publishVolume(id, mountCap)
	w.mounter.fail = func(effect, _ string) error {
		if effect == "mount" {
			return errors.New("the disk is on fire")
		}
		return nil
	}
	require.ErrorContains(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap)), "mount volume "+string(id)+": the disk is on fire")
	w.mounter.fail = nil
	w.restart()
	w.eventually(func() bool { return w.publication(id).Staging == nil }, "no grant: it is taken down and told")
	require.Zero(t, w.pool.ActiveDevices())
	require.Zero(t, w.mounter.count("mount"))
	require.NoError(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap)))
	require.Equal(t, 1, w.mounter.count("mkfs"), "the format was reported")
}

func TestS2_AGrantIsWorthNothingInAnotherSession(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	epoch := w.publishVolume(id, mountCap)
	w.mounter.fail = func(effect, _ string) error {
		if effect == "mkfs" {
			w.mounter.fail = nil
			w.mu.Lock()
			defer w.mu.Unlock()
			u := w.full()
			u.Adopted = false // a session with a cluster that was restored meanwhile
			w.e.Update(u)
		}
		return nil
	}
	require.Equal(t, fsm.Precondition, reasonOf(w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap))))
	require.Zero(t, w.mounter.count("mount"))
	w.mu.Lock()
	w.e.Update(w.full())
	w.mu.Unlock()
	require.NoError(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap)), "asked again, granted again")
}

func TestS2_APersistedEpochRefuses(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	w.restart()
	older := fsm.Epoch{Incarnation: epoch.Incarnation, Index: epoch.Index - 1}
	before := w.proposals()
	require.Equal(t, fsm.StaleEpoch, reasonOf(w.e.Stage(t.Context(), w.stageRequest(id, older, mountCap))))
	require.Equal(t, fsm.StaleEpoch, reasonOf(w.e.PublishTarget(t.Context(), w.publishRequest(id, older, mountCap))))
	require.Equal(t, before, w.proposals(), "it need not ask")
}

// revokePublication ends the publication while the host is cut off, and reconnects the host.
func (w *testHost) revokePublication(id fsm.VolumeID) {
	w.t.Helper()
	w.disconnectHost()
	w.setReachable(w.host.ID, false)
	require.NoError(w.t, w.unpublishVolume(id), "S31: the obligation is kept, the answer is OK")
	v, _ := w.volume(id)
	require.Len(w.t, v.Teardowns, 1)
}

func TestS31_ARevokedPublicationIsEndedByItsHost(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, mountCap)))
	w.revokePublication(id)
	w.connectHost(w.e)
	w.eventually(func() bool { v, _ := w.volume(id); return len(v.Teardowns) == 0 }, "the host said so")
	mounts, paths := w.mounter.leftovers()
	require.Empty(t, mounts)
	require.Empty(t, paths)
	require.Zero(t, w.pool.ActiveDevices())
}

// S31: unpublished while its host is reachable, a local volume is taken down at once, or as soon
// as nothing uses it, and never by force.
func TestS31_WhatIsUnpublishedWhileItIsStagedIsTakenDown(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, mountCap)))
	w.mounter.setBusy(stagingPath, true)
	require.NoError(t, w.unpublishVolume(id))
	w.eventually(func() bool { v, _ := w.volume(id); return v.Operation != nil && v.Operation.LastError != "" }, "the host says what keeps it")
	require.True(t, w.mounter.isMounted(id, stagingPath), "what is in use stays")
	w.mounter.setBusy(stagingPath, false)
	w.eventually(func() bool { v, _ := w.volume(id); return len(v.Teardowns) == 0 }, "the host ended it")
	mounts, _ := w.mounter.leftovers()
	require.Empty(t, mounts)
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
}

func TestS3_AMountOfAnOlderEpochIsTakenDownFirst(t *testing.T) {
	w := newTestHost(t)
	id, _ := w.staged(mountCap)
	w.mounter.setBusy(stagingPath, true)
	w.revokePublication(id)
	w.connectHost(w.e)
	later := w.publishVolume(id, mountCap)
	require.Equal(t, fsm.Busy, reasonOf(w.e.Stage(t.Context(), w.stageRequest(id, later, mountCap))))
	require.Equal(t, 1, w.mounter.count("mount"))
	w.mounter.setBusy(stagingPath, false)
	w.eventually(func() bool { return w.e.Stage(t.Context(), w.stageRequest(id, later, mountCap)) == nil }, "staged anew")
	require.Equal(t, 2, w.mounter.count("mount"))
	v, _ := w.volume(id)
	require.Empty(t, v.Teardowns)
	require.Equal(t, later, w.publication(id).Epoch)
	require.True(t, w.publication(id).Staging.Done)
}

func TestS3_NoMountEndsOnTheCallersWordAlone(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	forged := fsm.Epoch{Incarnation: epoch.Incarnation, Index: epoch.Index + 100}
	for range 2 {
		require.Equal(t, fsm.StaleEpoch, reasonOf(w.e.Stage(t.Context(), w.stageRequest(id, forged, mountCap))))
		require.Equal(t, fsm.StaleEpoch, reasonOf(w.e.PublishTarget(t.Context(), w.publishRequest(id, forged, mountCap))))
		mounts, _ := w.mounter.leftovers()
		require.Len(t, mounts, 1)
	}
}

func TestS12_AnAbsentPoolCreatesNothingAndLosesNothing(t *testing.T) {
	w := newTestHost(t)
	kept := backendtest.NewID()
	w.create(kept, mountCap)
	w.pool.SetAbsent(true)
	id := backendtest.NewID()
	w.startCreate(id, mountCap)
	w.eventually(func() bool { v, _ := w.volume(id); return v.Operation.Attempts > 0 }, "it says why it does not get on")
	v, _ := w.volume(id)
	require.Contains(t, v.Operation.LastError, "absent")
	w.restart()
	require.NoError(t, w.deleteVolume(kept))
	w.eventually(func() bool { v, _ := w.volume(kept); return v.Operation.Attempts > 0 }, "nor can it remove")
	require.Equal(t, 1, w.pool.Images())
	require.Equal(t, fsm.ReplicaPresent, w.replicaState(kept), "nothing is reported gone, nor missing")

	w.pool.SetAbsent(false)
	w.eventually(func() bool { return w.isReady(id) }, "made when the pool is back")
	w.eventually(func() bool { _, known := w.volume(kept); return !known }, "and removed")
}

func (w *testHost) replicaState(id fsm.VolumeID) fsm.ReplicaState {
	v, ok := w.volume(id)
	if !ok || len(v.Replicas) == 0 {
		return 0
	}
	return v.Replicas[0].State
}

func TestS14_ALaggingControllersDesiredStateDeletesNothing(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	w.mu.Lock()
	old := w.full()
	old.Volumes[0].Goal = fsm.GoalRemove // what a log that took another course would desire
	w.mu.Unlock()
	w.create(backendtest.NewID(), mountCap) // the host acts on later desired state
	obs, incarnation := w.e.ActedEpoch()
	require.Positive(t, obs.Compare(old.At))
	require.NotEmpty(t, incarnation)
	for range 2 {
		w.stop()
		w.build(nil, w.testCluster)
		again, _ := w.e.ActedEpoch()
		require.GreaterOrEqual(t, again.Compare(obs), 0, "kept on disk")
		w.e.Start()
		unknown := backendtest.NewID()
		old.Volumes = append(old.Volumes[:1], fsm.DesiredVolume{Volume: unknown, Pool: w.pool.ID(), Size: testSize, Goal: fsm.GoalCreate})
		w.waitConsidered(func() { w.e.Update(old) }, id, unknown)
		require.Equal(t, 2, w.pool.Images())
	}
	w.connectHost(w.e)
	require.NoError(t, w.deleteVolume(id))
	w.eventually(func() bool { _, known := w.volume(id); return !known }, "a controller that caught up is believed")
}

// waitConsidered waits until the background has reconciled the volumes after something happened.
func (w *testHost) waitConsidered(after func(), ids ...fsm.VolumeID) {
	w.t.Helper()
	before := map[fsm.VolumeID]int{}
	for _, id := range ids {
		before[id] = w.pool.Effects("observe", id)
	}
	after()
	for _, id := range ids {
		w.eventually(func() bool { return w.pool.Effects("observe", id) > before[id] }, "it is looked at")
		require.NoError(w.t, w.e.Unstage(w.t.Context(), id, "/none"), "a round through the volume's lock")
	}
}

func TestS1_AHostInAdoptionModeActsOnNoDesiredState(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	before, _ := w.e.ActedEpoch()
	w.mu.Lock()
	u := w.full()
	w.mu.Unlock()
	unknown := backendtest.NewID()
	u.Adopted, u.At.Index = false, u.At.Index+10
	u.Volumes[0].Goal = fsm.GoalRemove
	u.Volumes = append(u.Volumes, fsm.DesiredVolume{Volume: unknown, Pool: w.pool.ID(), Size: testSize, Goal: fsm.GoalCreate})
	for range 2 {
		w.waitConsidered(func() { w.e.Update(u) }, id, unknown)
		require.Equal(t, 1, w.pool.Images())
	}
	after, _ := w.e.ActedEpoch()
	require.Equal(t, before, after)
}

func TestS14_ADeviceThatVanishedIsMissingAndNeverMadeAgain(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	w.pool.LoseImage(id)
	w.restart()
	w.eventually(func() bool { return w.replicaState(id) == fsm.ReplicaMissing }, "it is reported")
	epoch := w.publishVolume(id, mountCap)
	require.Equal(t, fsm.Precondition, reasonOf(w.e.Stage(t.Context(), w.stageRequest(id, epoch, mountCap))))
	require.Equal(t, 1, w.pool.Effects("create", id))
	require.Zero(t, w.pool.Images())
	require.NoError(t, w.pool.Create(t.Context(), id, testSize), "an operator finds it")
	w.restart()
	w.eventually(func() bool { return w.replicaState(id) == fsm.ReplicaPresent }, "it is there again")
}

func TestS14_WhatTheStateDoesNotKnowIsLeftAlone(t *testing.T) {
	w := newTestHost(t)
	orphan := backendtest.NewID()
	require.NoError(t, w.pool.Create(t.Context(), orphan, testSize))
	w.restart()
	w.create(backendtest.NewID(), mountCap)
	require.Equal(t, 2, w.pool.Images())
}
