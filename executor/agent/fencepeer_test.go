package agent_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	peerOutdated = fsmpb.Verdict_VERDICT_PEER_OUTDATED
	selfOutdated = fsmpb.Verdict_VERDICT_SELF_OUTDATED
	refused      = fsmpb.Verdict_VERDICT_REFUSED
)

// stagedPair is a pair with a volume that is staged on a host whose kernel's handlers all die.
func stagedPair(t *testing.T) (p *pair, a *member, id fsm.VolumeID) {
	p = newPair(t)
	a = p.hosts[0]
	id = p.create(protocolC)
	a.stage(id, a.publish(id))
	a.replicator.SetHandler(nil)
	return p, a, id
}

func TestS6_FencePeer(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(p *pair, a *member, id fsm.VolumeID)
		want   fsmpb.Verdict
	}{
		"the holder of the grant goes on":       {func(p *pair, _ *member, _ fsm.VolumeID) { p.link.SetDisconnected(true) }, peerOutdated},
		"S13 not a device that is not frozen":   {func(*pair, *member, fsm.VolumeID) {}, refused},
		"not a device that was frozen, and met": {func(p *pair, _ *member, _ fsm.VolumeID) { p.link.SetDisconnected(true); p.link.SetDisconnected(false) }, refused},
		"S8 not one whose publication was ended": {func(p *pair, a *member, id fsm.VolumeID) {
			a.disconnect()
			p.link.SetDisconnected(true)
			a.endPublication(id)
			a.reopenDevice()
		}, refused},
		"the loser is told that it lost": {func(p *pair, a *member, id fsm.VolumeID) {
			a.disconnect()
			a.unpublish(id)
			p.hosts[1].publish(id)
			a.reopenDevice()
		}, selfOutdated},
	} {
		t.Run(name, func(t *testing.T) {
			p, a, id := stagedPair(t)
			tc.before(p, a, id)
			ctx, cancel := context.WithTimeout(t.Context(), pairTimeout)
			defer cancel()
			verdict, err := a.e.FencePeer(ctx, id)
			require.NoError(t, err)
			require.Equal(t, tc.want, verdict)
		})
	}
}

// reopenDevice lets the host's proposals through again, but no updates yet.
func (m *member) reopenDevice() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.connected = true
}

// endPublication ends the publication, without waiting.
func (m *member) endPublication(id fsm.VolumeID) {
	m.t.Helper()
	m.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{
		VolumeId: string(id), NodeId: string(m.node),
	}}})
}

func TestS6_FencePeerOfAnUnknownVolumeHasNoVerdict(t *testing.T) {
	p := newPair(t)
	for range 2 {
		verdict, err := p.hosts[0].e.FencePeer(t.Context(), backendtest.NewID())
		require.Equal(t, fsm.NotFound, reasonOf(err))
		require.Zero(t, verdict)
	}
}

func TestS7_HandlersOfOneLossShareARequest(t *testing.T) {
	p, a, id := stagedPair(t)
	p.setDown(true)
	p.link.SetDisconnected(true)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			verdict, err := a.e.FencePeer(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, peerOutdated, verdict)
		})
	}
	p.eventually("all of them ask", func() bool { return a.e.Handlers(id) == 3 })
	p.setDown(false)
	all.Wait()
	require.Equal(t, 1, p.outdateCommands())
}

func TestS6_FencePeerRetriesAsLongAsItsCallerLives(t *testing.T) {
	p, a, id := stagedPair(t)
	p.setDown(true)
	p.link.SetDisconnected(true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	verdict, err := a.e.FencePeer(ctx, id)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Zero(t, verdict)
}

// A suspended primary whose publication was revoked fails its I/O, so that an unmount does not hang.
func TestS9_ASuspendedHostThatWasRevokedFailsItsWrites(t *testing.T) {
	p := newPair(t)
	a := p.hosts[0]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.disconnect()
	p.link.SetDisconnected(true)
	a.endPublication(id)
	a.connect()
	p.eventually("it is torn down", func() bool {
		primary, frozen := a.replicator.Primary(id)
		return !primary && !frozen && len(p.volume(id).Teardowns) == 0
	})
	_, err := a.replicator.Write(id, "too late")
	require.Error(t, err)
	p.link.SetDisconnected(false)
	p.waitUpToDate(id)
	p.remove(id)
}

// S9: a host that was revoked while its I/O was frozen, and that the volume is published to again
// before it was heard of. What was frozen belongs to the publication that ended, and fails; then the
// host serves the new one.
func TestS9_AFrozenHostThatIsWantedAgainIsTornDownFirst(t *testing.T) {
	for name, handled := range map[string]bool{"with a handler of the kernel": true, "by the process alone": false} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			a := p.hosts[0]
			id := p.create(protocolC)
			a.stage(id, a.publish(id))
			a.write(id, "acknowledged")
			if !handled {
				a.replicator.SetHandler(nil)
			}
			a.disconnect()
			p.link.SetDisconnected(true)
			acknowledged, err := a.replicator.Write(id, "frozen")
			require.NoError(t, err)
			require.False(t, acknowledged)
			a.endPublication(id)
			p.mu.Lock()
			a.setReachable(true)
			p.mu.Unlock()
			p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_PublishVolume{PublishVolume: &fsmpb.PublishVolume{
				VolumeId: string(id), NodeId: string(a.node), Capability: proto(mountCap),
			}}})
			a.connect()
			p.eventually("the former publication is torn down", func() bool {
				_, frozen := a.replicator.Primary(id)
				return !frozen && len(p.volume(id).Teardowns) == 0
			})
			p.link.SetDisconnected(false)
			a.stage(id, a.publish(id))
			a.write(id, "under the new publication")
			p.waitUpToDate(id)
			a.holdsAll(id, "acknowledged", "under the new publication")
			a.unstage(id)
			a.unpublish(id)
			p.remove(id)
		})
	}
}

// Writes in flight at the loss complete successfully, but no sync of a filesystem may succeed
// because of that: unless the filesystem can be shut down, the replica stays suspended.
func TestS9_SuspendedIOEndsOnlyAfterAFilesystemShutdown(t *testing.T) {
	m := tearDownWhileFailing(t, "shutdown")
	require.NotZero(t, m.count("shutdown"))
}

// A direct write that is durable by itself is acknowledged by its completion alone, which may be a success after the loss. I/O
// stays suspended until nobody is left who would see it; this program's own processes are none of them, and are left alone.
func TestS9_SuspendedIOEndsOnlyAfterItsWritersDied(t *testing.T) {
	m := tearDownWhileFailing(t, "kill",
		executor.Process{PID: 7, Name: "database"}, executor.Process{PID: 8, Name: "own", Own: true}, executor.Process{PID: 9, Name: "dying", Dying: true})
	require.NotZero(t, m.count("shutdown"))
	require.Equal(t, 1, m.count("kill"), "once, and nobody else")
}

// tearDownWhileFailing has a primary with these writers lose, and an effect of its teardown fail: its I/O stays suspended until that
// succeeds.
func tearDownWhileFailing(t *testing.T, failing string, writers ...executor.Process) *fakeMounter {
	p := newPair(t)
	a := p.hosts[0]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.mounter.setWriters(writers...)
	fails := make(chan struct{}, 2)
	a.mounter.setFail(func(effect, _ string) error {
		if effect != failing {
			return nil
		}
		select {
		case fails <- struct{}{}:
		default: // enough were seen; the mounter must not block on this test
		}
		return errors.New("it hangs")
	})
	a.disconnect()
	p.link.SetDisconnected(true)
	a.endPublication(id)
	a.connect()
	for range 2 {
		<-fails
	}
	primary, frozen := a.replicator.Primary(id)
	require.True(t, primary && frozen)
	a.mounter.setFail(nil)
	require.Eventually(t, func() bool { // it is retried at growing intervals
		primary, frozen := a.replicator.Primary(id)
		return !primary && !frozen && len(p.volume(id).Teardowns) == 0
	}, pairTimeout, 10*time.Millisecond, "it is torn down")
	p.link.SetDisconnected(false)
	p.waitUpToDate(id)
	p.remove(id)
	return a.mounter
}

func TestS9_AHostThatCannotTearDownRebootsIfConfigured(t *testing.T) {
	t.Parallel()
	p := newStoppedPair(t)
	a, b := p.hosts[0], p.hosts[1]
	rebooted := make(chan struct{}, 8)
	a.configure = func(c *agent.Config) {
		c.SelfFenceAfter = 100 * time.Millisecond
		c.SelfFence = func() { rebooted <- struct{}{} }
	}
	a.start(nil)
	b.start(nil)
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.mounter.setBusy(stagingPath, true)
	a.disconnect()
	a.unpublish(id)
	b.stage(id, b.publish(id))
	require.Empty(t, rebooted)
	a.connect()
	select {
	case <-rebooted:
	case <-time.After(pairTimeout):
		require.Fail(t, "it does not reboot")
	}
	primary, _ := a.replicator.Primary(id)
	require.True(t, primary, "it is still held")
	a.mounter.setBusy(stagingPath, false)
	p.waitUpToDate(id)
}
