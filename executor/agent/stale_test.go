package agent

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// newBareExecutor is an Agent of a host without pools; nothing is started.
func newBareExecutor(t *testing.T) *Agent {
	host, err := records.OpenHost(t.TempDir() + "/data")
	require.NoError(t, err)
	e, err := New(Config{Node: "n1", Host: host})
	require.NoError(t, err)
	return e
}

// A call that waits for a volume's lock may get it from a holder that leaves an unkillable child
// on the device.
func TestACallThatWaitedForTheLockIsRefusedOnAParkedVolume(t *testing.T) {
	e := newBareExecutor(t)
	e.mu.Lock()
	v := e.volumeEntry(testVolume)
	e.mu.Unlock()
	require.True(t, e.tryLock(v))
	worked := false
	c, err := e.calls.beginCall(t.Context(), v.id, "stage", func(context.Context, *volume, *call) error {
		worked = true
		return nil
	})
	require.NoError(t, err)
	gone := make(chan struct{})
	e.parkVolume(v, unkillableChild(gone))
	e.unlock(v)
	<-c.done
	require.False(t, worked)
	require.ErrorContains(t, c.err, "cannot be killed")
	close(gone)
	require.Eventually(t, func() bool { return e.tryLock(v) }, time.Minute, time.Millisecond)
}

// Desired state may first appear after a reconciliation of the volume has failed: that failure is
// not the operation's.
func TestAFailureBeforeTheFirstDesiredStateIsNotReportedForTheOperation(t *testing.T) {
	e := newBareExecutor(t)
	e.mu.Lock()
	v := e.volumeEntry(testVolume)
	e.mu.Unlock()
	require.True(t, e.tryLock(v))
	e.volumeWorker.resetBackoff(v)
	require.NoError(t, e.records.openRecord(v))
	err := e.volumeWorker.converge(t.Context(), v)
	require.ErrorContains(t, err, "which this host does not have")
	e.Update(executor.Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true, FeatureLevel: fsm.MaxFeatureLevel, Volumes: []fsm.DesiredVolume{
		{Volume: v.id, Goal: fsm.GoalCreate, Operation: 7},
	}})
	e.volumeReports.reportFailure(v, err)
	e.mu.Lock()
	defer e.mu.Unlock()
	require.Empty(t, v.inFlight)
}

// A worker may have found a volume's entry just before another one dropped it. Meanwhile a call
// may have made a new entry, whose record is the same file.
func TestAForgottenVolumeIsNotReconciled(t *testing.T) {
	e := newBareExecutor(t)
	e.Update(executor.Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true})
	e.mu.Lock()
	dropped := e.volumeEntry(testVolume)
	e.mu.Unlock()
	require.True(t, e.tryLock(dropped))
	require.NoError(t, e.records.openRecord(dropped))
	e.volumeWorker.forgetVolume(dropped)
	e.unlock(dropped)
	e.mu.Lock()
	v := e.volumeEntry(testVolume)
	e.mu.Unlock()
	require.True(t, e.tryLock(v))
	require.NoError(t, e.records.openRecord(v))
	v.record.Staging = &records.StagingRecord{Path: "/staging"}
	require.NoError(t, e.records.saveRecord(v, true))
	if e.tryLock(dropped) { // as a worker does that finds nothing of it
		e.volumeWorker.forgetVolume(dropped)
	}
	e.mu.Lock()
	require.Same(t, v, e.volumes[v.id])
	e.mu.Unlock()
	j, err := records.OpenRecordFile(e.Host.Dir(), v.id)
	require.NoError(t, err)
	require.Equal(t, v.record.Staging, j.Staging)
}

// A victim is watched while the log says that it is one. The time that it may take to be torn
// down starts anew when it becomes a victim again.
func TestTheSelfFenceTimerRestartsWithEachLoss(t *testing.T) {
	e := newBareExecutor(t)
	reboots := 0
	e.Replicator, e.SelfFence = noneSuspended{}, func() { reboots++ }
	e.mu.Lock()
	v := e.volumeEntry(testVolume)
	v.desired = &fsm.DesiredVolume{Replication: &fsm.DesiredReplica{Outdated: true}}
	e.mu.Unlock()
	primary := &executor.ResourceStatus{Primary: true}
	began := time.Now()
	e.suspended.watchVictim(v, primary, began)
	e.mu.Lock()
	v.desired = &fsm.DesiredVolume{Replication: &fsm.DesiredReplica{}} // before anything observed it again
	e.mu.Unlock()
	suspects, err := e.suspended.suspendedOrVictims(t.Context())
	require.NoError(t, err)
	require.Empty(t, suspects)
	e.mu.Lock()
	v.desired = &fsm.DesiredVolume{Replication: &fsm.DesiredReplica{Outdated: true}}
	e.mu.Unlock()
	e.suspended.watchVictim(v, primary, began.Add(time.Hour))
	require.Zero(t, reboots)
	e.suspended.watchVictim(v, primary, began.Add(2*time.Hour))
	require.Equal(t, 1, reboots)
}

type noneSuspended struct{ executor.Replicator }

func (noneSuspended) ListSuspended(context.Context) ([]fsm.VolumeID, error) { return nil, nil }

// A measurement is judged by the size that was desired before: a volume may be expanded meanwhile.
func TestAVolumeExpandedDuringItsHealthCheckIsNotTooShort(t *testing.T) {
	e := newBareExecutor(t)
	e.mu.Lock()
	v := e.volumeEntry(testVolume)
	e.mu.Unlock()
	wanted := func(size int64) {
		e.Update(executor.Update{Volumes: []fsm.DesiredVolume{{Volume: v.id, Goal: fsm.GoalKeep, ReplicaState: fsm.ReplicaPresent, Size: size}}})
	}
	pool := &resizingPool{size: 1 << 20}
	e.Pools = []executor.Backend{pool}
	wanted(pool.size)
	pool.onObserve = func() {
		pool.size *= 2
		wanted(pool.size)
	}
	x, err := e.health.observeHealth(t.Context(), v, nil)
	require.NoError(t, err)
	require.Equal(t, fsm.Condition{Message: "not staged"}, e.health.recordHealth(t.Context(), v, x))
	wanted(4 * pool.size)
	pool.onObserve = func() {}
	x, err = e.health.observeHealth(t.Context(), v, nil)
	require.NoError(t, err)
	require.True(t, e.health.recordHealth(t.Context(), v, x).Abnormal)
}

// S1: the acted epoch names the incarnation that its desired state came from, also when a session
// of another incarnation with the same counter begins meanwhile.
func TestS1_TheActedEpochNamesTheIncarnationItCameFrom(t *testing.T) {
	e := newBareExecutor(t)
	e.Mounter = newProbeMounter(nil)
	looks := 0
	pool := &resizingPool{}
	e.Pools = []executor.Backend{pool}
	say := func(id string) {
		e.Update(executor.Update{
			At: fsm.Epoch{Incarnation: 1, Index: 5}, Full: true, Adopted: true, IncarnationID: []byte(id),
			Volumes: []fsm.DesiredVolume{{Volume: testVolume, Goal: fsm.GoalRemove}},
		})
	}
	e.mu.Lock()
	v := e.volumeEntry(testVolume)
	e.mu.Unlock()
	say("one")
	pool.onObserve = func() {
		if looks++; looks == 3 { // the replica's, the volume's choice, and the step's own
			say("two")
		}
	}
	require.True(t, e.tryLock(v))
	require.NoError(t, e.records.openRecord(v))
	require.ErrorContains(t, e.volumeWorker.converge(t.Context(), v), "has not converged")
	at, id := e.ActedEpoch()
	require.Equal(t, fsm.Epoch{Incarnation: 1, Index: 5}, at)
	require.Equal(t, "one", string(id))
}

type resizingPool struct {
	executor.Backend
	size      int64
	onObserve func() // after it was measured
}

func (p *resizingPool) Facts(context.Context) executor.PoolFacts { return executor.PoolFacts{} }

func (p *resizingPool) Remove(context.Context, fsm.VolumeID) error { return nil }

func (p *resizingPool) Observe(context.Context, fsm.VolumeID) (executor.Device, error) {
	defer p.onObserve()
	return executor.Device{Exists: true, Size: p.size}, nil
}

// S2: an attachment that was committed in one session is void in the next one, which may begin
// while the backing device is read.
func TestS2_ASessionThatEndsWhileTheDiskIsReadAttachesNothing(t *testing.T) {
	e := newBareExecutor(t)
	session := func() { e.Update(executor.Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true}) }
	session()
	e.mu.Lock()
	v := e.volumeEntry(testVolume)
	e.mu.Unlock()
	require.NoError(t, e.records.openRecord(v))
	require.NoError(t, e.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) { r.Attachment = 1 }))
	attached := &attachCounter{}
	e.Replicator, e.Mounter = attached, newProbeMounter(session)
	h := &plan.ObservedReplica{ResourceStatus: executor.ResourceStatus{InKernel: true}}
	v.replica.committedAttachment = attachment{number: 1, session: 1}
	require.ErrorIs(t, e.replicaWorker.attachDisk(t.Context(), v, h), errSessionChanged)
	require.Zero(t, attached.count)
	require.Zero(t, v.record.Replica.GivenAttachment)
	e.Mounter = newProbeMounter(func() {})
	v.replica.committedAttachment = attachment{number: 1, session: 2}
	require.NoError(t, e.replicaWorker.attachDisk(t.Context(), v, h))
	require.Equal(t, 1, attached.count)
}

type attachCounter struct {
	executor.Replicator
	count int
}

func (a *attachCounter) Attach(context.Context, fsm.VolumeID) error {
	a.count++
	return nil
}

// probeMounter is a Mounter that only reads devices.
type probeMounter struct {
	executor.Mounter
	read func()
}

func newProbeMounter(read func()) probeMounter { return probeMounter{read: read} }

func (probeMounter) Mounts(context.Context, executor.Device) ([]executor.Mount, error) {
	return nil, nil
}

func (probeMounter) RealPath(path string) (string, error) { return path, nil }

func (p probeMounter) Probe(context.Context, string, int64) (executor.Content, error) {
	p.read()
	return executor.Content{Read: true}, nil
}

type unkillableChild chan struct{}

func (s unkillableChild) Error() string { return "a command cannot be killed" }

func (s unkillableChild) Stuck() <-chan struct{} { return s }

const testVolume = fsm.VolumeID("hf-0b7a9a3e-4f5c-4d6e-8f70-8192a3b4c5d6")

// repeatUntilEnd does something over and over until the test ends.
func repeatUntilEnd(t *testing.T, do func()) {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	var doing sync.WaitGroup
	doing.Go(func() {
		for ctx.Err() == nil {
			do()
		}
	})
	t.Cleanup(func() { end(); doing.Wait() })
}

// A volume's desired state may be withdrawn as soon as a call has waited for it.
func TestACallKeepsTheDesiredStateItWaitedForAfterItIsWithdrawn(t *testing.T) {
	e := newBareExecutor(t)
	e.CatchUpTimeout = time.Minute
	e.mu.Lock()
	v := e.volumeEntry(testVolume)
	e.mu.Unlock()
	repeatUntilEnd(t, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.intake.setDesired(v.id, map[bool]*fsm.DesiredVolume{true: {Volume: v.id}}[v.desired == nil], fsm.Epoch{})
	})
	for range 20_000 {
		w, err := e.desiredOf(t.Context(), v)
		require.NoError(t, err)
		require.NotNil(t, w)
	}
}

// An expansion returns the size that the filesystem has. The volume may grow again, or its pool
// be absent, before it is observed another time.
func TestAnExpansionAnswersWithTheSizeThatItMade(t *testing.T) {
	for name, after := range map[string]int64{"grown again": 4 << 20, "absent": 0} {
		t.Run(name, func(t *testing.T) {
			e := newBareExecutor(t)
			pool := &resizingPool{size: 2 << 20}
			pool.onObserve = func() { pool.size = after }
			e.Pools, e.Mounter = []executor.Backend{stagedPool{pool}}, newProbeMounter(nil)
			e.Update(executor.Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true, Volumes: []fsm.DesiredVolume{
				{Volume: testVolume, Goal: fsm.GoalKeep, Size: 2 << 20},
			}})
			e.mu.Lock()
			v := e.volumeEntry(testVolume)
			e.mu.Unlock()
			require.NoError(t, e.records.openRecord(v))
			v.record.Staging = &records.StagingRecord{Path: "/staging", Block: true}
			require.NoError(t, e.records.saveRecord(v, true))
			size, err := e.Expand(t.Context(), executor.ExpandRequest{Volume: v.id, Path: "/staging"})
			require.NoError(t, err)
			require.EqualValues(t, 2<<20, size)
		})
	}
}

// stagedPool is a pool with an active device of the volume.
type stagedPool struct{ *resizingPool }

func (p stagedPool) Observe(ctx context.Context, id fsm.VolumeID) (executor.Device, error) {
	d, err := p.resizingPool.Observe(ctx, id)
	d.Path = "/dev/fake"
	return d, err
}

// A volume that was unstaged and staged again at the same path during its health check has not
// lost its mount.
func TestAVolumeRestagedDuringItsHealthCheckIsNotAbnormal(t *testing.T) {
	e := newBareExecutor(t)
	e.Update(executor.Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true, Volumes: []fsm.DesiredVolume{
		{Volume: testVolume, Goal: fsm.GoalKeep, ReplicaState: fsm.ReplicaPresent},
	}})
	e.mu.Lock()
	v := e.volumeEntry(testVolume)
	e.mu.Unlock()
	pool := &resizingPool{size: 1 << 20, onObserve: func() {}}
	e.Pools, e.Mounter = []executor.Backend{stagedPool{pool}}, newProbeMounter(nil) // which knows of no mount
	require.NoError(t, e.records.openRecord(v))
	stage := func(s *records.StagingRecord) {
		v.record.Staging = s
		require.NoError(t, e.records.saveRecord(v, true))
	}
	stage(&records.StagingRecord{Path: "/staging"})
	pool.onObserve = func() {
		stage(nil)
		stage(&records.StagingRecord{Path: "/staging"})
	}
	e.health.checkHealth(v)
	require.Nil(t, v.health)
	pool.onObserve = func() {}
	e.health.checkHealth(v)
	require.Equal(t, "the volume is staged, but its mount is gone", v.health.Message)
}
