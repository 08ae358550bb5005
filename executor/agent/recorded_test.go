package agent_test

import (
	"fmt"
	rand "math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// waitObserved waits until the background has observed the volume again since, and is done.
func (w *testHost) waitObserved(id fsm.VolumeID, since int) {
	w.t.Helper()
	w.eventually(func() bool { return w.pool.Effects("observe", id) > since }, "somebody looks at the volume")
	require.NoError(w.t, w.e.UnpublishTarget(w.t.Context(), id, "/nowhere"))
}

// touchOther advances the session by a change of another volume's desired state.
func (w *testHost) touchOther(id fsm.VolumeID) {
	w.t.Helper()
	w.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_PublishVolume{PublishVolume: &fsmpb.PublishVolume{
		VolumeId: string(id), NodeId: "n1", Capability: proto(blockCap),
	}}})
	require.NoError(w.t, w.unpublishVolume(id))
}

// S73: the session reads the state for one volume while it has not read a change of another: its
// update's index is past that change, but the update does not list the other volume.
func TestS73_AnUpdateThatDoesNotNameAVolumeEndsNothingOfIt(t *testing.T) {
	for name, capability := range map[string]fsm.Capability{"a filesystem": mountCap, "a raw device": blockCap} {
		t.Run(name, func(t *testing.T) {
			w := newTestHost(t)
			other := backendtest.NewID()
			w.create(other, blockCap)
			id, epoch := w.staged(capability)
			w.withholdTouched(func(touched fsm.VolumeID) bool { return touched == id })
			require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, capability)))
			before := w.pool.Effects("observe", id)
			w.touchOther(other)
			w.waitObserved(id, before)
			require.True(t, w.mounter.isMounted(id, targetPath), "nothing that the newest word wants is unbound")
			w.releaseWithheld()
			require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, capability)))
			require.Equal(t, 1, w.mounter.count("bind"))
		})
	}
}

// S73: desired state that shows an earlier staging is no acknowledgement of the later one.
func TestS73_StageAnswersWhenTheNextCallIsValid(t *testing.T) {
	for name, capability := range map[string]fsm.Capability{"a filesystem": mountCap, "a raw device": blockCap} {
		t.Run(name, func(t *testing.T) {
			w := newTestHost(t)
			id, epoch := w.staged(capability)
			w.setHoldUpdates(true)
			for range 3 {
				require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
				require.NoError(t, w.e.Stage(t.Context(), w.stageRequest(id, epoch, capability)))
				require.True(t, w.publication(id).Staging.Done, "OK means recorded")
				require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, capability)))
				require.True(t, w.publication(id).Targets[0].Done, "OK means recorded")
				require.NoError(t, w.e.UnpublishTarget(t.Context(), id, targetPath))
			}
		})
	}
}

// proposedFacts counts the facts of a volume that were proposed.
func (w *testHost) proposedFacts(id fsm.VolumeID) map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	count := map[string]int{}
	for _, cmd := range w.commands {
		for _, ob := range cmd.GetReport().GetObservations() {
			if ob.GetVolumeId() == string(id) {
				count[fmt.Sprintf("%T", ob.GetFact())[len("*fsmpb.Observation_"):]]++
			}
		}
	}
	return count
}

// S73: a fact is reported once, however late an update shows that the log has it.
func TestS73_AFactIsReportedOnce(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	w.setHoldUpdates(true)
	for range 2 {
		require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, mountCap)))
	}
	for range 2 {
		require.NoError(t, w.e.UnpublishTarget(t.Context(), id, targetPath))
	}
	for range 2 {
		require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	}
	before := w.pool.Effects("observe", id)
	w.setHoldUpdates(false)
	w.waitObserved(id, before)
	w.eventually(func() bool { return w.publication(id).Staging == nil }, "the log knows that it is unstaged")
	require.Equal(t, map[string]int{"DeviceCreated": 1, "Formatted": 1, "Staged": 1, "TargetBound": 1, "TargetGone": 1, "Unstaged": 1}, w.proposedFacts(id))
}

// S73: what is certain to be refused is refused before it is recorded.
func TestS73_ATargetThatHoldsSomethingElseIsRefusedBeforeItIsRecorded(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	w.mounter.setForeign(targetPath, true)
	for range 2 {
		require.Equal(t, fsm.Precondition, reasonOf(w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, mountCap))))
		require.Empty(t, w.publication(id).Targets)
	}
	w.takeDownAll(id)
}

// takeDownAll takes the volume down in the CO's order.
func (w *testHost) takeDownAll(id fsm.VolumeID) {
	w.t.Helper()
	for range 2 {
		require.NoError(w.t, w.e.UnpublishTarget(w.t.Context(), id, targetPath))
	}
	for range 2 {
		require.NoError(w.t, w.e.Unstage(w.t.Context(), id, stagingPath))
	}
	require.NoError(w.t, w.unpublishVolume(id))
	mounts, _ := w.mounter.leftovers()
	require.Empty(w.t, mounts)
}

// S73: a refusal that could not be foreseen leaves nothing behind that fails a later call.
func TestS73_ARefusalAfterTheRecordLeavesNoRecord(t *testing.T) {
	for name, capability := range map[string]fsm.Capability{"a filesystem": mountCap, "a raw device": blockCap} {
		t.Run(name, func(t *testing.T) {
			w := newTestHost(t)
			id, epoch := w.staged(capability)
			w.mounter.setFail(func(effect, path string) error {
				if effect == "check" {
					w.mounter.setForeign(path, true) // between the observation and the bind
				}
				return nil
			})
			require.Equal(t, fsm.Precondition, reasonOf(w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, capability))))
			require.Empty(t, w.publication(id).Targets, "the intent is forgotten when the refusal is answered")
			w.mounter.setFail(nil)
			elsewhere := w.publishRequest(id, epoch, capability)
			elsewhere.TargetPath = "/kubelet/pod/another"
			require.NoError(t, w.e.PublishTarget(t.Context(), elsewhere), "it is not in the way of another target")
			require.NoError(t, w.e.UnpublishTarget(t.Context(), id, elsewhere.TargetPath))
			w.takeDownAll(id)
		})
	}
}

// S73: something foreign that appeared at the target path is left alone, and fails nothing.
func TestS73_AForeignMountAtATargetDoesNotBlockTeardown(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(mountCap)
	require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, mountCap)))
	w.mounter.setForeign(targetPath, true)
	w.takeDownAll(id)
	_, paths := w.mounter.leftovers()
	require.Equal(t, []string{targetPath}, paths, "it is left")
}

// S73: a path is one volume's at a time, so ending a target removes nothing of another volume.
func TestS73_ATargetPathIsOfOneVolume(t *testing.T) {
	w := newTestHost(t)
	id, epoch := w.staged(blockCap)
	other := backendtest.NewID()
	w.create(other, blockCap)
	request := w.publishRequest(other, w.publishVolume(other, blockCap), blockCap)
	request.StagingPath = "/kubelet/other"
	require.NoError(t, w.e.Stage(t.Context(), executor.StageRequest{Volume: other, Epoch: request.Epoch, Path: request.StagingPath, Capability: blockCap}))
	require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, blockCap)))
	for range 2 {
		require.Equal(t, fsm.Precondition, reasonOf(w.e.PublishTarget(t.Context(), request)))
		require.NoError(t, w.e.UnpublishTarget(t.Context(), other, targetPath))
	}
	require.True(t, w.mounter.isMounted(id, targetPath))
	require.Empty(t, w.publication(other).Targets)
	require.NoError(t, w.e.UnpublishTarget(t.Context(), id, targetPath))
	require.NoError(t, w.e.PublishTarget(t.Context(), request))
	w.restart()
	require.Equal(t, fsm.Precondition, reasonOf(w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, blockCap))), "also after a restart")
	require.True(t, w.mounter.isMounted(other, targetPath))
}

// S73, with seeds: workers use some volumes at shared paths, while the session delivers the
// changes in any order and arbitrarily late. What is acknowledged is true, and stays true
// until it is ended. The short form has fewer seeds.
func TestS73_AcknowledgedCallsStayTrue(t *testing.T) {
	t.Parallel()
	for seed := range uint64(inShort(5, 20)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := newTestHost(t)
			late := &randomDelay{random: rand.New(rand.NewPCG(seed, 73))}
			w.withholdTouched(late.delays)
			var workers sync.WaitGroup
			for n := range 4 {
				id := backendtest.NewID()
				w.startCreate(id, blockCap)
				w.eventually(func() bool { w.releaseSomeWithheld(); return w.isReady(id) }, "the volume is ready")
				workers.Go(func() { w.publishRepeatedly(t, id, rand.New(rand.NewPCG(seed, uint64(n)))) })
			}
			workers.Wait()
		})
	}
}

// randomDelay draws which changes a session has not read yet.
type randomDelay struct {
	mu     sync.Mutex
	random *rand.Rand
}

func (l *randomDelay) delays(fsm.VolumeID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.IntN(2) == 0
}

// releaseSomeWithheld has the session read some of the changes that it has not read yet.
func (w *testHost) releaseSomeWithheld() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var touched []fsm.Change
	for id := range w.pending {
		touched = append(touched, fsm.Change{Volume: id, Node: "n1"})
	}
	w.sendTouched(touched)
}

// publishRepeatedly publishes one volume again and again, at paths that the others use too.
func (w *testHost) publishRepeatedly(t *testing.T, id fsm.VolumeID, random *rand.Rand) {
	epoch, staging := w.publishVolume(id, blockCap), "/kubelet/staging-"+string(id)
	stage := executor.StageRequest{Volume: id, Epoch: epoch, Path: staging, Capability: blockCap}
	publish := executor.PublishTargetRequest{Volume: id, Epoch: epoch, StagingPath: staging, Capability: blockCap, Fingerprint: "abcd"}
	for range 10 {
		publish.TargetPath = fmt.Sprintf("/kubelet/pod-%d", random.IntN(3))
		ok := w.retry(t, func() error { return w.e.Stage(t.Context(), stage) }) &&
			w.retry(t, func() error { return w.e.PublishTarget(t.Context(), publish) })
		for range 5 {
			w.releaseSomeWithheld()
			if ok && (!w.mounter.isMounted(id, publish.TargetPath) || !w.publication(id).Targets[0].Done) {
				t.Errorf("an acknowledged target of %s at %s is gone", id, publish.TargetPath)
				return
			}
		}
		ok = ok && w.retry(t, func() error { return w.e.UnpublishTarget(t.Context(), id, publish.TargetPath) }) &&
			w.retry(t, func() error { return w.e.Unstage(t.Context(), id, staging) })
		if !ok {
			return
		}
	}
}

// retry repeats what was refused temporarily, as a CO does.
func (w *testHost) retry(t *testing.T, call func() error) bool {
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		w.releaseSomeWithheld()
		err := call()
		if err == nil {
			return true
		}
		if time.Now().After(deadline) {
			t.Errorf("a call is refused for ever: %v", err)
			return false
		}
	}
}
