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

// newBareAgent is an Agent of a host without pools; nothing is started.
func newBareAgent(t *testing.T) *Agent {
	host, err := records.OpenHost(t.TempDir() + "/data")
	require.NoError(t, err)
	a, err := New(Config{Node: "n1", Host: host})
	require.NoError(t, err)
	return a
}

// A call that waits for a volume's lock may get it from a holder that leaves an unkillable child
// on the device.
func TestACallThatWaitedForTheLockIsRefusedOnAParkedVolume(t *testing.T) {
	a := newBareAgent(t)
	a.mu.Lock()
	v := a.volumeEntry(testVolume)
	a.mu.Unlock()
	require.True(t, a.tryLock(v))
	worked := false
	c, err := a.calls.beginCall(t.Context(), v.id, "stage", func(context.Context, *volume, *call) error {
		worked = true
		return nil
	})
	require.NoError(t, err)
	gone := make(chan struct{})
	a.parkVolume(v, unkillableChild(gone))
	a.unlock(v)
	<-c.done
	require.False(t, worked)
	require.ErrorContains(t, c.err, "cannot be killed")
	close(gone)
	require.Eventually(t, func() bool { return a.tryLock(v) }, time.Minute, time.Millisecond)
}

// Desired state may first appear after a reconciliation of the volume has failed: that failure is
// not the operation's.
func TestAFailureBeforeTheFirstDesiredStateIsNotReportedForTheOperation(t *testing.T) {
	a := newBareAgent(t)
	a.mu.Lock()
	v := a.volumeEntry(testVolume)
	a.mu.Unlock()
	require.True(t, a.tryLock(v))
	a.volumeWorker.resetBackoff(v)
	require.NoError(t, a.records.openRecord(v))
	err := a.volumeWorker.converge(t.Context(), v)
	require.ErrorContains(t, err, "which this host does not have")
	a.Update(executor.Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true, FeatureLevel: fsm.MaxFeatureLevel, Volumes: []fsm.DesiredVolume{
		{Volume: v.id, Goal: fsm.GoalCreate, Operation: 7},
	}})
	a.volumeReports.reportFailure(v, err)
	a.mu.Lock()
	defer a.mu.Unlock()
	require.Empty(t, v.inFlight)
}

// A worker may have found a volume's entry just before another one dropped it. Meanwhile a call
// may have made a new entry, whose record is the same file.
func TestAForgottenVolumeIsNotReconciled(t *testing.T) {
	a := newBareAgent(t)
	a.Update(executor.Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true})
	a.mu.Lock()
	dropped := a.volumeEntry(testVolume)
	a.mu.Unlock()
	require.True(t, a.tryLock(dropped))
	require.NoError(t, a.records.openRecord(dropped))
	a.volumeWorker.forgetVolume(dropped)
	a.unlock(dropped)
	a.mu.Lock()
	v := a.volumeEntry(testVolume)
	a.mu.Unlock()
	require.True(t, a.tryLock(v))
	require.NoError(t, a.records.openRecord(v))
	v.record.Staging = &records.StagingRecord{Path: "/staging"}
	require.NoError(t, a.records.saveRecord(v, true))
	if a.tryLock(dropped) { // as a worker does that finds nothing of it
		a.volumeWorker.forgetVolume(dropped)
	}
	a.mu.Lock()
	require.Same(t, v, a.volumes[v.id])
	a.mu.Unlock()
	file, err := records.OpenRecordFile(a.Host.Dir(), v.id)
	require.NoError(t, err)
	require.Equal(t, v.record.Staging, file.Staging)
}

// A victim is watched while the log says that it is one. The time that it may take to be torn
// down starts anew when it becomes a victim again.
func TestTheSelfFenceTimerRestartsWithEachLoss(t *testing.T) {
	a := newBareAgent(t)
	reboots := 0
	a.Replicator, a.SelfFence = noneSuspended{}, func() { reboots++ }
	a.mu.Lock()
	v := a.volumeEntry(testVolume)
	v.desired = &fsm.DesiredVolume{Replication: &fsm.DesiredReplica{Outdated: true}}
	a.mu.Unlock()
	primary := &executor.ResourceStatus{Primary: true}
	began := time.Now()
	a.suspended.watchVictim(v, primary, began)
	a.mu.Lock()
	v.desired = &fsm.DesiredVolume{Replication: &fsm.DesiredReplica{}} // before anything observed it again
	a.mu.Unlock()
	suspects, err := a.suspended.suspendedOrVictims(t.Context())
	require.NoError(t, err)
	require.Empty(t, suspects)
	a.mu.Lock()
	v.desired = &fsm.DesiredVolume{Replication: &fsm.DesiredReplica{Outdated: true}}
	a.mu.Unlock()
	a.suspended.watchVictim(v, primary, began.Add(time.Hour))
	require.Zero(t, reboots)
	a.suspended.watchVictim(v, primary, began.Add(2*time.Hour))
	require.Equal(t, 1, reboots)
}

type noneSuspended struct{ executor.Replicator }

func (noneSuspended) ListSuspended(context.Context) ([]fsm.VolumeID, error) { return nil, nil }

// A measurement is judged by the size that was desired before: a volume may be expanded meanwhile.
func TestAVolumeExpandedDuringItsHealthCheckIsNotTooShort(t *testing.T) {
	a := newBareAgent(t)
	a.mu.Lock()
	v := a.volumeEntry(testVolume)
	a.mu.Unlock()
	wanted := func(size int64) {
		a.Update(executor.Update{Volumes: []fsm.DesiredVolume{{Volume: v.id, Goal: fsm.GoalKeep, ReplicaState: fsm.ReplicaPresent, Size: size}}})
	}
	pool := &resizingPool{size: 1 << 20}
	a.Pools = []executor.Backend{pool}
	wanted(pool.size)
	pool.onObserve = func() {
		pool.size *= 2
		wanted(pool.size)
	}
	in, err := a.health.observeHealth(t.Context(), v, nil)
	require.NoError(t, err)
	require.Equal(t, fsm.Condition{Message: "not staged"}, a.health.recordHealth(t.Context(), v, in))
	wanted(4 * pool.size)
	pool.onObserve = func() {}
	in, err = a.health.observeHealth(t.Context(), v, nil)
	require.NoError(t, err)
	require.True(t, a.health.recordHealth(t.Context(), v, in).Abnormal)
}

// S1: the acted epoch names the incarnation that its desired state came from, also when a session
// of another incarnation with the same counter begins meanwhile.
func TestS1_TheActedEpochNamesTheIncarnationItCameFrom(t *testing.T) {
	a := newBareAgent(t)
	a.Mounter = newProbeMounter(nil)
	looks := 0
	pool := &resizingPool{}
	a.Pools = []executor.Backend{pool}
	say := func(id string) {
		a.Update(executor.Update{
			At: fsm.Epoch{Incarnation: 1, Index: 5}, Full: true, Adopted: true, IncarnationID: []byte(id),
			Volumes: []fsm.DesiredVolume{{Volume: testVolume, Goal: fsm.GoalRemove}},
		})
	}
	a.mu.Lock()
	v := a.volumeEntry(testVolume)
	a.mu.Unlock()
	say("one")
	pool.onObserve = func() {
		if looks++; looks == 3 { // the replica's, the volume's choice, and the step's own
			say("two")
		}
	}
	require.True(t, a.tryLock(v))
	require.NoError(t, a.records.openRecord(v))
	require.ErrorContains(t, a.volumeWorker.converge(t.Context(), v), "has not converged")
	at, id := a.ActedEpoch()
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
	a := newBareAgent(t)
	session := func() { a.Update(executor.Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true}) }
	session()
	a.mu.Lock()
	v := a.volumeEntry(testVolume)
	a.mu.Unlock()
	require.NoError(t, a.records.openRecord(v))
	require.NoError(t, a.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) { r.Attachment = 1 }))
	attached := &attachCounter{}
	a.Replicator, a.Mounter = attached, newProbeMounter(session)
	h := &plan.ObservedReplica{ResourceStatus: executor.ResourceStatus{InKernel: true}}
	v.replica.committedAttachment = attachment{number: 1, session: 1}
	require.ErrorIs(t, a.replicaWorker.attachDisk(t.Context(), v, h), errSessionChanged)
	require.Zero(t, attached.count)
	require.Zero(t, v.record.Replica.GivenAttachment)
	a.Mounter = newProbeMounter(func() {})
	v.replica.committedAttachment = attachment{number: 1, session: 2}
	require.NoError(t, a.replicaWorker.attachDisk(t.Context(), v, h))
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
	a := newBareAgent(t)
	a.CatchUpTimeout = time.Minute
	a.mu.Lock()
	v := a.volumeEntry(testVolume)
	a.mu.Unlock()
	repeatUntilEnd(t, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.intake.setDesired(v.id, map[bool]*fsm.DesiredVolume{true: {Volume: v.id}}[v.desired == nil], fsm.Epoch{})
	})
	for range 20_000 {
		d, err := a.desiredOf(t.Context(), v)
		require.NoError(t, err)
		require.NotNil(t, d)
	}
}

// An expansion returns the size that the filesystem has. The volume may grow again, or its pool
// be absent, before it is observed another time.
func TestAnExpansionAnswersWithTheSizeThatItMade(t *testing.T) {
	for name, after := range map[string]int64{"grown again": 4 << 20, "absent": 0} {
		t.Run(name, func(t *testing.T) {
			a := newBareAgent(t)
			pool := &resizingPool{size: 2 << 20}
			pool.onObserve = func() { pool.size = after }
			a.Pools, a.Mounter = []executor.Backend{stagedPool{pool}}, newProbeMounter(nil)
			a.Update(executor.Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true, Volumes: []fsm.DesiredVolume{
				{Volume: testVolume, Goal: fsm.GoalKeep, Size: 2 << 20},
			}})
			a.mu.Lock()
			v := a.volumeEntry(testVolume)
			a.mu.Unlock()
			require.NoError(t, a.records.openRecord(v))
			v.record.Staging = &records.StagingRecord{Path: "/staging", Block: true}
			require.NoError(t, a.records.saveRecord(v, true))
			size, err := a.Expand(t.Context(), executor.ExpandRequest{Volume: v.id, Path: "/staging"})
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
	a := newBareAgent(t)
	a.Update(executor.Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true, Volumes: []fsm.DesiredVolume{
		{Volume: testVolume, Goal: fsm.GoalKeep, ReplicaState: fsm.ReplicaPresent},
	}})
	a.mu.Lock()
	v := a.volumeEntry(testVolume)
	a.mu.Unlock()
	pool := &resizingPool{size: 1 << 20, onObserve: func() {}}
	a.Pools, a.Mounter = []executor.Backend{stagedPool{pool}}, newProbeMounter(nil) // which knows of no mount
	require.NoError(t, a.records.openRecord(v))
	stage := func(s *records.StagingRecord) {
		v.record.Staging = s
		require.NoError(t, a.records.saveRecord(v, true))
	}
	stage(&records.StagingRecord{Path: "/staging"})
	pool.onObserve = func() {
		stage(nil)
		stage(&records.StagingRecord{Path: "/staging"})
	}
	a.health.checkHealth(v)
	require.Nil(t, v.health)
	pool.onObserve = func() {}
	a.health.checkHealth(v)
	require.Equal(t, "the volume is staged, but its mount is gone", v.health.Message)
}
