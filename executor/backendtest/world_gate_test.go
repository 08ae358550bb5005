package backendtest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// answers is a gate that answers at one boundary, and notes all that it was asked.
type answers struct {
	at    string
	do    func(backendtest.Boundary) backendtest.Answer
	names map[string]bool
}

func (a *answers) Pass(_ context.Context, at backendtest.Boundary) backendtest.Answer {
	if a.names == nil {
		a.names = map[string]bool{}
	}
	if a.names[at.Name()] = true; at.Name() == a.at {
		return a.do(at)
	}
	return backendtest.Answer{}
}

func reasonOf(err error) fsm.Reason {
	var r *fsm.Rejection
	if errors.As(err, &r) {
		return r.Reason
	}
	return 0
}

func requireEvent(t *testing.T, w *backendtest.World, kind string) backendtest.Event {
	t.Helper()
	for _, e := range w.Events() {
		if e.Kind == kind {
			return e
		}
	}
	require.Fail(t, "there is no such event", kind)
	return backendtest.Event{}
}

func TestToolsFailBeforeAndAfterTheirEffectAndLie(t *testing.T) {
	broken := errors.New("broken")
	for at, tc := range map[string]struct {
		answer   backendtest.Answer
		err      error
		finished bool
	}{
		"pool.create.before": {backendtest.Fail(broken), broken, false},
		"pool.create.after":  {backendtest.Fail(broken), broken, true},
		"pool.remove.before": {backendtest.Fail(broken), nil, true},
	} {
		_, p := oneHost(&answers{at: at, do: func(backendtest.Boundary) backendtest.Answer { return tc.answer }}, false)
		id := backendtest.NewID()
		require.ErrorIs(t, p.Pools()[0].Create(t.Context(), id, mib), tc.err)
		d, err := p.Pools()[0].Observe(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, tc.finished, d.Exists, at)
		require.Equal(t, !tc.finished, d.Unfinished, at)
	}
	_, p := oneHost(&answers{at: "pool.create.before", do: func(backendtest.Boundary) backendtest.Answer { return backendtest.Lie() }}, false)
	id := backendtest.NewID()
	require.NoError(t, p.Pools()[0].Create(t.Context(), id, mib))
	d, err := p.Pools()[0].Observe(t.Context(), id)
	require.NoError(t, err)
	require.False(t, d.Exists)
}

// Whatever a process was about to do when it was killed, it does not do any more.
func TestAKilledProcessHasNoEffect(t *testing.T) {
	for at, done := range map[string]bool{"pool.create.before": false, "pool.create.after": true} {
		synctest.Test(t, func(t *testing.T) {
			var waiting backendtest.Boundary
			h, p := oneHost(&answers{at: at, do: func(b backendtest.Boundary) backendtest.Answer {
				waiting = b
				<-b.Gone
				return backendtest.Answer{}
			}}, false)
			id, result := backendtest.NewID(), make(chan error, 1)
			go func() { result <- p.Pools()[0].Create(context.Background(), id, mib) }()
			synctest.Wait()
			require.Equal(t, id, waiting.Volume)
			h.StartProcess()
			require.ErrorIs(t, <-result, backendtest.ErrProcessGone)
			require.Equal(t, done, h.Pool(worldPool).Content(id).Size == mib)
		})
	}
}

// A tool that survives being killed does its effect later, unless its host lost its power.
func TestAStuckToolDoesItsEffectWhenItEnds(t *testing.T) {
	for _, lost := range []bool{false, true} {
		h, p := oneHost(&answers{at: "pool.create.before", do: func(backendtest.Boundary) backendtest.Answer { return backendtest.Stuck() }}, false)
		id := backendtest.NewID()
		err := p.Pools()[0].Create(t.Context(), id, mib)
		var stuck interface{ Stuck() <-chan struct{} }
		require.ErrorAs(t, err, &stuck)
		select {
		case <-stuck.Stuck():
			require.Fail(t, "it has not ended")
		default:
		}
		if lost {
			h.PowerLoss(nil)
			require.Empty(t, h.World().Events())
		} else {
			requireEvent(t, h.World(), backendtest.EventChildEnds).Do()
		}
		<-stuck.Stuck()
		require.Equal(t, !lost, h.Pool(worldPool).Content(id).Size == mib)
	}
}

// A stuck tool that waits for a disk ends once the disk answers.
func TestAStuckToolWaitsForAHangingDisk(t *testing.T) {
	h, p := oneHost(&answers{at: "pool.create.before", do: func(backendtest.Boundary) backendtest.Answer { return backendtest.Stuck() }}, false)
	id := backendtest.NewID()
	require.Error(t, p.Pools()[0].Create(t.Context(), id, mib))
	h.Pool(worldPool).SetHanging(true)
	h.World().Settle()
	require.Zero(t, h.Pool(worldPool).Content(id).Size)
	h.Pool(worldPool).SetHanging(false)
	h.World().Settle()
	require.EqualValues(t, mib, h.Pool(worldPool).Content(id).Size)
	require.Empty(t, h.World().Events())
}

// A limit that stays on a device is the next volume's.
func TestAnAuditFindsLimitsOfAnotherVolume(t *testing.T) {
	h, p := oneHost(nil, false)
	pool := p.Pools()[0]
	for range 2 {
		require.Empty(t, h.Audit().Problems())
		id := backendtest.NewID()
		require.NoError(t, pool.Create(t.Context(), id, mib))
		d, err := pool.Activate(t.Context(), id, false)
		require.NoError(t, err)
		require.NoError(t, p.Throttle().Apply(t.Context(), d, fsm.Limits{ReadIOPS: 1}))
		require.NoError(t, pool.Deactivate(t.Context(), id))
		require.Len(t, h.Audit().Problems(), 1)
		_, err = pool.Activate(t.Context(), backendtest.NewID(), false)
		require.Equal(t, fsm.Precondition, reasonOf(err))
		h.Reboot()
		p = h.StartProcess()
		pool = p.Pools()[0]
	}
}

// A device's name goes to the next volume that is activated; what names the old one is refused.
func TestAPathIsAnotherVolumesAfterADeactivation(t *testing.T) {
	h, p := oneHost(nil, false)
	pool := p.Pools()[0]
	first, second := backendtest.NewID(), backendtest.NewID()
	for _, id := range []fsm.VolumeID{first, second} {
		require.NoError(t, pool.Create(t.Context(), id, mib))
	}
	d, err := pool.Activate(t.Context(), first, false)
	require.NoError(t, err)
	require.NoError(t, pool.Deactivate(t.Context(), first))
	other, err := pool.Activate(t.Context(), second, false)
	require.NoError(t, err)
	require.Equal(t, d.Path, other.Path)
	require.NotEqual(t, d.StablePath, other.StablePath)
	require.Equal(t, []fsm.VolumeID{second}, h.Audit().Devices)
}

func TestAnAuditFindsWhatIsLeft(t *testing.T) {
	h, p := oneHost(nil, false)
	require.True(t, h.Audit().Empty())
	id, d := mounted(t, p)
	require.NoError(t, p.Throttle().Apply(t.Context(), d, fsm.Limits{ReadIOPS: 1}))
	a := h.Audit()
	require.Equal(t, []fsm.VolumeID{id}, a.Volumes())
	require.Len(t, a.Mounts, 2)
	require.Len(t, a.Targets, 1)
	require.Empty(t, a.Problems())
	h.Pool(worldPool).LoseImage(id)
	require.Len(t, h.Audit().Problems(), 1)
	require.Equal(t, fsm.Busy, reasonOf(p.Pools()[0].Deactivate(t.Context(), id)), "it is mounted")
	for _, path := range []string{boundAt, stagedAt} {
		require.NoError(t, p.Mounter().Unmount(t.Context(), d, path))
	}
	require.NoError(t, p.Mounter().RemoveTarget(t.Context(), boundAt))
	require.NoError(t, p.Throttle().Apply(t.Context(), d, fsm.Limits{}))
	require.NoError(t, p.Pools()[0].Deactivate(t.Context(), id))
	require.True(t, h.Audit().Empty())
}
