package executor

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// bare is an executor of a host without pools, of which nothing was started.
func bare(t *testing.T) *Executor {
	host, err := OpenHost(t.TempDir() + "/data")
	require.NoError(t, err)
	e, err := New(Config{Node: "n1", Host: host})
	require.NoError(t, err)
	return e
}

// A call that waits for a volume's lock may get it from somebody who leaves a child on the
// device that cannot be killed.
func TestACallThatWaitedForTheLockLeavesAParkedVolumeAlone(t *testing.T) {
	e := bare(t)
	e.mu.Lock()
	v := e.volume(staleVolume)
	e.mu.Unlock()
	require.True(t, e.tryLock(v))
	worked := false
	c, err := e.begin(t.Context(), v.id, "stage", func(context.Context, *volume, *call) error {
		worked = true
		return nil
	})
	require.NoError(t, err)
	gone := make(chan struct{})
	e.park(v, stuckChild(gone))
	e.unlock(v)
	<-c.done
	require.False(t, worked)
	require.ErrorContains(t, c.err, "cannot be killed")
	close(gone)
	require.Eventually(t, func() bool { return e.tryLock(v) }, time.Minute, time.Millisecond)
}

// The log may begin to want something of a volume after a look at it has failed: what the
// look met is nothing of the operation's.
func TestAFailureBeforeTheFirstWishIsNotToldAsTheOperations(t *testing.T) {
	e := bare(t)
	e.mu.Lock()
	v := e.volume(staleVolume)
	e.mu.Unlock()
	require.True(t, e.tryLock(v))
	e.reconsider(v)
	require.NoError(t, e.open(v))
	err := e.settle(t.Context(), v)
	require.ErrorContains(t, err, "which this host does not have")
	e.Update(Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true, Level: fsm.MaxFeatureLevel, Wishes: []fsm.DesiredVolume{
		{Volume: v.id, Goal: fsm.GoalCreate, Operation: 7},
	}})
	e.failed(v, err)
	e.mu.Lock()
	defer e.mu.Unlock()
	require.Empty(t, v.flying)
}

// A worker may have found a volume's entry just before another one dropped it. By now a
// call may have made a new one, whose record has the same file.
func TestADroppedVolumeIsNotLookedAtAgain(t *testing.T) {
	e := bare(t)
	e.Update(Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true})
	e.mu.Lock()
	dropped := e.volume(staleVolume)
	e.mu.Unlock()
	require.True(t, e.tryLock(dropped))
	require.NoError(t, e.open(dropped))
	e.drop(dropped)
	e.unlock(dropped)
	e.mu.Lock()
	v := e.volume(staleVolume)
	e.mu.Unlock()
	require.True(t, e.tryLock(v))
	require.NoError(t, e.open(v))
	v.journal.Staging = &staging{Path: "/staging"}
	require.NoError(t, e.save(v, true))
	if e.tryLock(dropped) { // as a worker does, who finds nothing of it
		e.drop(dropped)
	}
	e.mu.Lock()
	require.Same(t, v, e.volumes[v.id])
	e.mu.Unlock()
	j, err := openJournal(e.Host.dir, v.id)
	require.NoError(t, err)
	require.Equal(t, v.journal.Staging, j.Staging)
}

// A replica that lost is watched while the log says so. How long it has not been torn down
// is counted anew when it loses again.
func TestALossThatIsOverDoesNotCountForTheNext(t *testing.T) {
	e := bare(t)
	reboots := 0
	e.Replicator, e.SelfFence = noneFrozen{}, func() { reboots++ }
	e.mu.Lock()
	v := e.volume(staleVolume)
	v.wish = &fsm.DesiredVolume{Replication: &fsm.DesiredReplica{Outdated: true}}
	e.mu.Unlock()
	primary := &Mirror{Primary: true}
	began := time.Now()
	e.watchLoser(v, primary, began)
	e.mu.Lock()
	v.wish = &fsm.DesiredVolume{Replication: &fsm.DesiredReplica{}} // before anybody looked again
	e.mu.Unlock()
	suspects, err := e.suspects(t.Context())
	require.NoError(t, err)
	require.Empty(t, suspects)
	e.mu.Lock()
	v.wish = &fsm.DesiredVolume{Replication: &fsm.DesiredReplica{Outdated: true}}
	e.mu.Unlock()
	e.watchLoser(v, primary, began.Add(time.Hour))
	require.Zero(t, reboots)
	e.watchLoser(v, primary, began.Add(2*time.Hour))
	require.Equal(t, 1, reboots)
}

type noneFrozen struct{ Replicator }

func (noneFrozen) Suspended(context.Context) ([]fsm.VolumeID, error) { return nil, nil }

// What was measured is judged by what was wanted before: a volume may grow meanwhile.
func TestAVolumeThatGrowsWhileItIsLookedAtIsNotTooShort(t *testing.T) {
	e := bare(t)
	e.mu.Lock()
	v := e.volume(staleVolume)
	e.mu.Unlock()
	wanted := func(size int64) {
		e.Update(Update{Wishes: []fsm.DesiredVolume{{Volume: v.id, Goal: fsm.GoalKeep, ReplicaState: fsm.ReplicaPresent, Size: size}}})
	}
	pool := &growingPool{size: 1 << 20}
	e.Pools = []Backend{pool}
	wanted(pool.size)
	pool.observed = func() {
		pool.size *= 2
		wanted(pool.size)
	}
	x, err := e.look(t.Context(), v, nil)
	require.NoError(t, err)
	require.Equal(t, fsm.Condition{Message: "not staged"}, e.examined(t.Context(), v, x))
	wanted(4 * pool.size)
	pool.observed = func() {}
	x, err = e.look(t.Context(), v, nil)
	require.NoError(t, err)
	require.True(t, e.examined(t.Context(), v, x).Abnormal)
}

// S1: what is recorded as acted on names the incarnation that said it, also when a session
// of another one with the same counter begins meanwhile.
func TestS1_WhatWasActedOnIsOfTheIncarnationThatSaidIt(t *testing.T) {
	e := bare(t)
	e.Mounter = probing(nil)
	looks := 0
	pool := &growingPool{}
	e.Pools = []Backend{pool}
	say := func(id string) {
		e.Update(Update{
			At: fsm.Epoch{Incarnation: 1, Index: 5}, Full: true, Adopted: true, IncarnationID: []byte(id),
			Wishes: []fsm.DesiredVolume{{Volume: staleVolume, Goal: fsm.GoalRemove}},
		})
	}
	e.mu.Lock()
	v := e.volume(staleVolume)
	e.mu.Unlock()
	say("one")
	pool.observed = func() {
		if looks++; looks == 3 { // one for the replica, one for what is to be done, and the step's own
			say("two")
		}
	}
	require.True(t, e.tryLock(v))
	require.NoError(t, e.open(v))
	require.ErrorContains(t, e.settle(t.Context(), v), "is not as it should be")
	at, id := e.Seen()
	require.Equal(t, fsm.Epoch{Incarnation: 1, Index: 5}, at)
	require.Equal(t, "one", string(id))
}

type growingPool struct {
	Backend
	size     int64
	observed func() // after it was measured
}

func (p *growingPool) Facts(context.Context) PoolFacts { return PoolFacts{} }

func (p *growingPool) Remove(context.Context, fsm.VolumeID) error { return nil }

func (p *growingPool) Observe(context.Context, fsm.VolumeID) (Device, error) {
	defer p.observed()
	return Device{Exists: true, Size: p.size}, nil
}

// S2: an attachment that one session's log heard of is nothing in the next session, which
// may begin while the device below is read.
func TestS2_ASessionThatEndsWhileTheDiskIsReadAttachesNothing(t *testing.T) {
	e := bare(t)
	session := func() { e.Update(Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true}) }
	session()
	e.mu.Lock()
	v := e.volume(staleVolume)
	e.mu.Unlock()
	require.NoError(t, e.open(v))
	require.NoError(t, e.saveReplica(v, func(r *replicaRecord) { r.Attach = 1 }))
	attached := &attachments{}
	e.Replicator, e.Mounter = attached, probing(session)
	h := &replicaHave{Mirror: Mirror{InKernel: true}}
	v.replica.committed = attachment{number: 1, session: 1}
	require.ErrorIs(t, e.attachDisk(t.Context(), v, h), errOtherSession)
	require.Zero(t, attached.count)
	require.Zero(t, v.journal.Replica.Held)
	e.Mounter = probing(func() {})
	v.replica.committed = attachment{number: 1, session: 2}
	require.NoError(t, e.attachDisk(t.Context(), v, h))
	require.Equal(t, 1, attached.count)
}

type attachments struct {
	Replicator
	count int
}

func (a *attachments) Attach(context.Context, fsm.VolumeID) error {
	a.count++
	return nil
}

// prober is a Mounter that only reads devices.
type prober struct {
	Mounter
	read func()
}

func probing(read func()) prober { return prober{read: read} }

func (prober) Mounts(context.Context, Device) ([]Mount, error) { return nil, nil }
func (prober) Real(path string) (string, error)                { return path, nil }

func (p prober) Probe(context.Context, string, int64) (Content, error) {
	p.read()
	return Content{Read: true}, nil
}

type stuckChild chan struct{}

func (s stuckChild) Error() string           { return "a command cannot be killed" }
func (s stuckChild) Parked() <-chan struct{} { return s }

const staleVolume = fsm.VolumeID("hf-0b7a9a3e-4f5c-4d6e-8f70-8192a3b4c5d6")

// meanwhile does something over and over until the test ends.
func meanwhile(t *testing.T, do func()) {
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

// A volume may cease to be wanted as soon as a call has waited for what it must be.
func TestAWishThatIsTakenBackIsNotWhatACallWaitedFor(t *testing.T) {
	e := bare(t)
	e.Patience = time.Minute
	e.mu.Lock()
	v := e.volume(staleVolume)
	e.mu.Unlock()
	meanwhile(t, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.wished(v.id, map[bool]*fsm.DesiredVolume{true: {Volume: v.id}}[v.wish == nil], fsm.Epoch{})
	})
	for range 20_000 {
		w, err := e.wishOf(t.Context(), v)
		require.NoError(t, err)
		require.NotNil(t, w)
	}
}

// The answer to an expansion is the size that the filesystem has. The volume may grow again,
// or its pool be absent, before anybody looks another time.
func TestAnExpansionAnswersWithTheSizeThatItMade(t *testing.T) {
	for name, after := range map[string]int64{"grown again": 4 << 20, "absent": 0} {
		t.Run(name, func(t *testing.T) {
			e := bare(t)
			pool := &growingPool{size: 2 << 20}
			pool.observed = func() { pool.size = after }
			e.Pools, e.Mounter = []Backend{stagedPool{pool}}, probing(nil)
			e.Update(Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true, Wishes: []fsm.DesiredVolume{
				{Volume: staleVolume, Goal: fsm.GoalKeep, Size: 2 << 20},
			}})
			e.mu.Lock()
			v := e.volume(staleVolume)
			e.mu.Unlock()
			require.NoError(t, e.open(v))
			v.journal.Staging = &staging{Path: "/staging", Block: true}
			require.NoError(t, e.save(v, true))
			size, err := e.ExpandNode(t.Context(), ExpandRequest{Volume: v.id, Path: "/staging"})
			require.NoError(t, err)
			require.EqualValues(t, 2<<20, size)
		})
	}
}

// stagedPool has a device of the volume.
type stagedPool struct{ *growingPool }

func (p stagedPool) Observe(ctx context.Context, id fsm.VolumeID) (Device, error) {
	d, err := p.growingPool.Observe(ctx, id)
	d.Path = "/dev/fake"
	return d, err
}

// A volume that was unstaged and staged again at the same path, while it was looked at, has
// not lost its mount.
func TestAVolumeThatIsStagedAgainWhileItIsLookedAtIsNotIll(t *testing.T) {
	e := bare(t)
	e.Update(Update{At: fsm.Epoch{Incarnation: 1, Index: 1}, Full: true, Adopted: true, Wishes: []fsm.DesiredVolume{
		{Volume: staleVolume, Goal: fsm.GoalKeep, ReplicaState: fsm.ReplicaPresent},
	}})
	e.mu.Lock()
	v := e.volume(staleVolume)
	e.mu.Unlock()
	pool := &growingPool{size: 1 << 20, observed: func() {}}
	e.Pools, e.Mounter = []Backend{stagedPool{pool}}, probing(nil) // which knows of no mount
	require.NoError(t, e.open(v))
	stage := func(s *staging) {
		v.journal.Staging = s
		require.NoError(t, e.save(v, true))
	}
	stage(&staging{Path: "/staging"})
	pool.observed = func() {
		stage(nil)
		stage(&staging{Path: "/staging"})
	}
	e.examine(v)
	require.Nil(t, v.health)
	pool.observed = func() {}
	e.examine(v)
	require.Equal(t, "the volume is staged, but its mount is gone", v.health.Message)
}
