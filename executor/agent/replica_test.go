package agent_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const protocolC = fsmpb.Protocol_PROTOCOL_C

func TestReplicatedVolumeLifecycle(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	p.waitUpToDate(id)
	for range 2 {
		for _, m := range []*member{a, b} {
			epoch := m.publish(id)
			m.stage(id, epoch)
			m.stage(id, epoch)
			m.write(id, "of "+string(m.node))
			m.unstage(id)
			m.unstage(id)
			m.unpublish(id)
			p.eventually("nobody is primary", func() bool { primary, _ := m.replicator.Primary(id); return !primary })
			p.waitUpToDate(id)
		}
	}
	require.Zero(t, a.pool.Snapshots()+b.pool.Snapshots(), "nobody lost")
	require.Equal(t, 1, a.mounter.count("mkfs")+b.mounter.count("mkfs"))
	p.remove(id)
}

func TestS8_TakeoverAfterALossOfPower(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "acknowledged")
	a.crash()
	a.unpublish(id)
	b.stage(id, b.publish(id))
	require.True(t, has(b.replicator.DiskContent(id), "acknowledged"))
	b.write(id, "after the takeover")
	a.start(nil)
	p.waitUpToDate(id)
	require.True(t, has(a.replicator.DiskContent(id), "after the takeover"))
	require.Equal(t, 1, a.pool.Snapshots(), "S9: what the loser had is kept")
	require.Zero(t, p.link.SplitBrains())
	b.unstage(id)
	b.unpublish(id)
	p.remove(id)
}

func TestS6_AnUnreachablePeerIsOutdatedAndTheWriterGoesOn(t *testing.T) {
	t.Parallel()
	for name, handled := range map[string]bool{"by the handler": true, "by the process alone": false} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			a, b := p.hosts[0], p.hosts[1]
			id := p.create(protocolC)
			a.stage(id, a.publish(id))
			if !handled {
				a.replicator.SetHandler(nil)
			}
			for i := range 2 {
				p.link.SetDisconnected(true)
				a.write(id, "alone "+string(rune('0'+i)))
				require.True(t, p.volume(id).ActiveReplica(b.e.Host.ID).Outdated)
				p.link.SetDisconnected(false)
				p.waitUpToDate(id)
			}
			require.Zero(t, b.pool.Snapshots(), "a replica that never wrote has nothing to keep")
			a.unstage(id)
			a.unpublish(id)
			p.remove(id)
		})
	}
}

// Only the controllers are unreachable for the primary.
func TestS8_S9_TakeoverFromAHostIsolatedFromTheControllersOnly(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "acknowledged")
	a.disconnect()
	a.unpublish(id)
	b.stage(id, b.publish(id))
	b.write(id, "after the takeover")
	primary, frozen := a.replicator.Primary(id)
	require.True(t, primary && frozen, "the loser is frozen")
	a.connect()
	p.waitUpToDate(id)
	primary, _ = a.replicator.Primary(id)
	require.False(t, primary)
	require.True(t, has(a.replicator.DiskContent(id), "acknowledged"))
	require.Equal(t, 1, a.pool.Snapshots(), "S9: what the loser had is kept")
	mounts, _ := a.mounter.leftovers()
	require.Empty(t, mounts)
	require.Zero(t, p.link.SplitBrains())
	b.unstage(id)
	b.unpublish(id)
	p.remove(id)
}

// Its peer and the controllers are unreachable for the primary.
func TestS8_S9_TakeoverFromAHostIsolatedFromAll(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "acknowledged")
	a.disconnect()
	p.link.SetDisconnected(true)
	a.unpublish(id)
	b.stage(id, b.publish(id))
	b.write(id, "after the takeover")
	acknowledged, err := a.replicator.Write(id, "of the loser")
	require.NoError(t, err)
	require.False(t, acknowledged, "the loser is frozen")
	a.connect()
	p.link.SetDisconnected(false)
	p.waitUpToDate(id)
	require.False(t, has(b.replicator.DiskContent(id), "of the loser"))
	require.Zero(t, p.link.SplitBrains())
	b.unstage(id)
	b.unpublish(id)
	p.remove(id)
}

func TestS6_WithoutAQuorumTheWriterStaysSuspendedUntilItIsBack(t *testing.T) {
	p := newPair(t)
	a := p.hosts[0]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	p.setDown(true)
	p.link.SetDisconnected(true)
	for range 20 {
		acknowledged, err := a.replicator.Write(id, "unheard")
		require.NoError(t, err)
		require.False(t, acknowledged)
		time.Sleep(5 * time.Millisecond) // until there is an answer
	}
	p.setDown(false)
	a.write(id, "after the quorum is back")
	p.link.SetDisconnected(false)
	p.waitUpToDate(id)
}

func TestS7_ARetriedOutdateGetsItsFirstVerdict(t *testing.T) {
	p := newPair(t)
	a := p.hosts[0]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	p.waitUpToDate(id)
	a.setLoseAnswers(true)
	p.link.SetDisconnected(true)
	p.eventually("the question is in the log", func() bool { return p.outdateCommands() == 1 })
	before := p.volume(id).Replication.Generation
	a.setLoseAnswers(false)
	a.write(id, "alone")
	require.Equal(t, 1, p.outdateCommands(), "one question is one entry")
	require.Equal(t, before, p.volume(id).Replication.Generation)
	p.link.SetDisconnected(false)
	p.waitUpToDate(id)
	p.link.SetDisconnected(true)
	a.write(id, "alone again")
	require.Equal(t, 2, p.outdateCommands(), "a new loss is a new question")
}

func TestS5_ADisklessPrimaryGoesOnAndIsAttachedAgain(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	for _, m := range []*member{a, b} {
		attachment := p.volume(id).ActiveReplica(m.e.Host.ID).Attachment
		m.replicator.FailDisk(id)
		a.write(id, "while "+string(m.node)+" had no disk")
		p.eventually("it is attached again", func() bool { return p.volume(id).ActiveReplica(m.e.Host.ID).Attachment > attachment })
		p.waitUpToDate(id)
	}
}

// S2: what the node was before its process restarted permits nothing.
func TestS2_AProcessThatIsStartedAgainAdoptsEverything(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	epoch := a.publish(id)
	a.stage(id, epoch)
	for _, m := range []*member{a, b} {
		m.mu.Lock()
		m.connected = false
		m.mu.Unlock()
		require.NoError(t, m.e.Shutdown(t.Context()))
		attached := m.replicator.Steps("attach")
		m.start(nil)
		a.write(id, "meanwhile")
		p.waitUpToDate(id)
		require.Equal(t, attached, m.replicator.Steps("attach"), "what is attached stays so")
	}
	a.stage(id, epoch)
	a.unstage(id)
	a.unpublish(id)
	p.remove(id)
}

// A block that a sync target took and lost with its power is in no bitmap: a full resync has it, also
// where the target had lost its peer before.
func TestASyncTargetThatLosesPowerIsResyncedInFull(t *testing.T) {
	for name, interrupt := range map[string]func(p *pair){
		"during the synchronisation": func(*pair) {},
		"after it lost its peer":     func(p *pair) { p.link.SetDisconnected(true) },
	} {
		t.Run(name, func(t *testing.T) {
			p, id := interruptedSync(t, 1, interrupt)
			a, b := p.hosts[0], p.hosts[1]
			a.write(id, "while the target is away")
			p.link.SetDisconnected(false)
			b.start(nil)
			p.waitUpToDate(id)
			require.Equal(t, a.replicator.DiskContent(id), b.replicator.DiskContent(id))
			require.Positive(t, b.replicator.Steps("invalidate"))
			require.Zero(t, a.replicator.Steps("invalidate"))
		})
	}
}

// A target whose source dies has what it took, and needs no full resync, whatever is tried meanwhile.
func TestASyncTargetWhoseSourceDiesIsNotResyncedInFull(t *testing.T) {
	p, id := interruptedSync(t, 0, func(*pair) {})
	a, b := p.hosts[0], p.hosts[1]
	p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: string(id), NodeId: string(a.node)}}})
	p.eventually("it is disconnected", func() bool { return b.replicator.Steps("disconnect") > 0 })
	a.start(nil)
	p.waitUpToDate(id)
	require.Zero(t, b.replicator.Steps("invalidate"))
}

// interruptedSync is a volume that the first host wrote to alone; the host with index dies lost
// its power while the second one was resynchronised, and after what else interrupted that.
func interruptedSync(t *testing.T, dies int, interrupt func(p *pair)) (*pair, fsm.VolumeID) {
	t.Helper()
	p := newPair(t)
	a := p.hosts[0]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "first")
	p.link.SetDisconnected(true)
	a.write(id, "alone")
	p.link.SetSyncTime(time.Hour)
	p.link.SetDisconnected(false)
	interrupt(p)
	p.hosts[dies].crash()
	p.link.SetSyncTime(time.Millisecond)
	return p, id
}

func TestBothHostsLosePowerAndGoOn(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	epoch := a.publish(id)
	a.stage(id, epoch)
	a.write(id, "acknowledged")
	a.crash()
	b.crash()
	b.start(nil)
	a.start(nil)
	p.waitUpToDate(id)
	p.eventually("the log knows that it is not staged", func() bool { return p.volume(id).Publication("n1").Staging == nil })
	a.stage(id, epoch)
	a.write(id, "and on")
	require.True(t, has(b.replicator.DiskContent(id), "acknowledged"))
	require.True(t, has(b.replicator.DiskContent(id), "and on"))
	a.unstage(id)
	a.unpublish(id)
	p.remove(id)
}

// A log that refuses at once is asked again after a while, not in a loop.
func TestRefusedReportsAreRepeatedAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		a := p.hosts[0]
		id := p.create(protocolC)
		a.stage(id, a.publish(id))
		a.replicator.SetHandler(nil) // it would ask the log, too
		p.setDown(true)
		p.link.SetDisconnected(true)
		time.Sleep(10 * time.Second)
		require.NotZero(t, p.refusals())
		require.Less(t, p.refusals(), maxRefused)
		p.setDown(false)
		p.link.SetDisconnected(false)
		p.waitUpToDate(id)
	})
}

// refusals is how many proposals were refused for want of a log.
func (p *pair) refusals() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

func (p *pair) setDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

func (m *member) setLoseAnswers(lose bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loseAnswers = lose
}

// outdateCommands counts the Outdate commands in the log.
func (p *pair) outdateCommands() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, cmd := range p.applied {
		if cmd.GetOutdate() != nil {
			n++
		}
	}
	return n
}

func TestS11_WithProtocolATheWriterGoesOnAndOutdatesThePeer(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(fsmpb.Protocol_PROTOCOL_A)
	a.stage(id, a.publish(id))
	for range 2 {
		p.link.SetDisconnected(true)
		acknowledged, err := a.replicator.Write(id, "alone")
		require.NoError(t, err)
		require.True(t, acknowledged, "it does not freeze")
		p.eventually("the log knows that the peer misses something", func() bool { return p.volume(id).ActiveReplica(b.host()).Outdated })
		p.link.SetDisconnected(false)
		p.waitUpToDate(id)
	}
	a.unstage(id)
	a.unpublish(id)
	p.remove(id)
}

// logLength is the number of commands in the log.
func (p *pair) logLength() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.applied)
}

// isReplicaIn reports whether a host's replica is in a state.
func (p *pair) isReplicaIn(id fsm.VolumeID, m *member, state fsm.ReplicaState) bool {
	v := p.volume(id)
	if v == nil {
		return false
	}
	r := v.Replica(m.host())
	return r != nil && r.State == state
}

// A host that waits for its peer does not fill the log with repeated reports.
func TestDeviceCreatedIsReportedOnce(t *testing.T) { synctest.Test(t, testDeviceCreatedIsReportedOnce) }

func testDeviceCreatedIsReportedOnce(t *testing.T) {
	p := newPair(t)
	p.link.SetDisconnected(true)
	id := p.startCreate(protocolC)
	p.eventually("both devices are made", func() bool {
		return p.isReplicaIn(id, p.hosts[0], fsm.ReplicaPresent) && p.isReplicaIn(id, p.hosts[1], fsm.ReplicaPresent)
	})
	p.eventually("it says little, once what is on its way arrived", func() bool {
		before := p.logLength()
		time.Sleep(300 * time.Millisecond)
		return p.logLength()-before <= 3
	})
	p.link.SetDisconnected(false)
	p.eventually("the volume is ready", func() bool { return p.isReady(id) })
	p.remove(id)
}

// S31: the host of a replicated volume is asked to take it down; what still uses it is named.
func TestS31_AReplicatedVolumeIsTakenDownWhenItIsUnpublished(t *testing.T) {
	p := newPair(t)
	a := p.hosts[0]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	unpublish := func() error {
		_, err := p.try("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: string(id), NodeId: string(a.node)}}})
		return err
	}
	a.mounter.setBusy(stagingPath, true)
	require.NoError(t, unpublish(), "its host is asked")
	publication := func() *fsm.Publication { return p.volume(id).Publication(a.node) }
	p.eventually("the host says what uses it", func() bool { return publication().UsedBy != "" })
	require.ErrorContains(t, unpublish(), "in use")
	require.True(t, a.mounter.isMounted(id, stagingPath), "nothing is taken down by force")
	a.mounter.setBusy(stagingPath, false)
	p.eventually("it is taken down", func() bool { return publication().Staging == nil })
	require.NoError(t, unpublish())
	p.waitUpToDate(id)
	p.remove(id)
}
