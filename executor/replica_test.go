package executor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const protocolC = fsmpb.Protocol_PROTOCOL_C

func TestAReplicatedVolumesLife(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	p.together(id)
	for range 2 {
		for _, m := range []*member{a, b} {
			epoch := m.publish(id)
			m.stage(id, epoch)
			m.stage(id, epoch)
			m.write(id, "of "+string(m.node))
			m.unstage(id)
			m.unstage(id)
			m.unpublish(id)
			p.eventually("nobody is primary", func() bool { primary, _ := m.replica.Primary(id); return !primary })
			p.together(id)
		}
	}
	require.Zero(t, a.pool.Snapshots()+b.pool.Snapshots(), "nobody lost")
	require.Equal(t, 1, a.mount.count("mkfs")+b.mount.count("mkfs"))
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
	require.True(t, has(b.replica.Content(id), "acknowledged"))
	b.write(id, "after the takeover")
	a.start(nil)
	p.together(id)
	require.True(t, has(a.replica.Content(id), "after the takeover"))
	require.Equal(t, 1, a.pool.Snapshots(), "S9: what the loser had is kept")
	require.Zero(t, p.link.SplitBrains())
	b.unstage(id)
	b.unpublish(id)
	p.remove(id)
}

func TestS6_AnUnreachablePeerIsOutdatedAndTheWriterGoesOn(t *testing.T) {
	for name, handled := range map[string]bool{"by the handler": true, "by the process alone": false} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			a, b := p.hosts[0], p.hosts[1]
			id := p.create(protocolC)
			a.stage(id, a.publish(id))
			if !handled {
				a.replica.SetHandler(nil)
			}
			for i := range 2 {
				p.link.SetCut(true)
				a.write(id, "alone "+string(rune('0'+i)))
				require.True(t, p.volume(id).ReplicaSync(b.e.Host.ID).Outdated)
				p.link.SetCut(false)
				p.together(id)
			}
			require.Zero(t, b.pool.Snapshots(), "a replica that never wrote has nothing to keep")
			a.unstage(id)
			a.unpublish(id)
			p.remove(id)
		})
	}
}

// Scenario 2b: only the controllers are cut off from the primary.
func TestS8_S9_TakeoverFromAHostThatIsCutOffFromTheControllersOnly(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "acknowledged")
	a.disconnect()
	a.unpublish(id)
	b.stage(id, b.publish(id))
	b.write(id, "after the takeover")
	primary, frozen := a.replica.Primary(id)
	require.True(t, primary && frozen, "the loser is frozen")
	a.connect()
	p.together(id)
	primary, _ = a.replica.Primary(id)
	require.False(t, primary)
	require.True(t, has(a.replica.Content(id), "acknowledged"))
	require.Equal(t, 1, a.pool.Snapshots(), "S9: what the loser had is kept")
	mounts, _ := a.mount.left()
	require.Empty(t, mounts)
	require.Zero(t, p.link.SplitBrains())
	b.unstage(id)
	b.unpublish(id)
	p.remove(id)
}

// Scenario 2: cut off from its peer and from the controllers.
func TestS8_S9_TakeoverFromAHostThatIsCutOffFromAll(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "acknowledged")
	a.disconnect()
	p.link.SetCut(true)
	a.unpublish(id)
	b.stage(id, b.publish(id))
	b.write(id, "after the takeover")
	acknowledged, err := a.replica.Write(id, "of the loser")
	require.NoError(t, err)
	require.False(t, acknowledged, "the loser is frozen")
	a.connect()
	p.link.SetCut(false)
	p.together(id)
	require.False(t, has(b.replica.Content(id), "of the loser"))
	require.Zero(t, p.link.SplitBrains())
	b.unstage(id)
	b.unpublish(id)
	p.remove(id)
}

func TestS6_WithoutAQuorumTheWriterStaysFrozenAndGoesOnWhenItIsBack(t *testing.T) {
	p := newPair(t)
	a := p.hosts[0]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	p.setDown(true)
	p.link.SetCut(true)
	for range 20 {
		acknowledged, err := a.replica.Write(id, "unheard")
		require.NoError(t, err)
		require.False(t, acknowledged)
		time.Sleep(5 * time.Millisecond) // for as long as it is not answered
	}
	p.setDown(false)
	a.write(id, "after the quorum is back")
	p.link.SetCut(false)
	p.together(id)
}

func TestS7_ARetryOfOneQuestionGetsItsFirstAnswer(t *testing.T) {
	p := newPair(t)
	a := p.hosts[0]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	p.together(id)
	a.setLate(true)
	p.link.SetCut(true)
	p.eventually("the question is in the log", func() bool { return p.questions() == 1 })
	before := p.volume(id).Replication.Generation
	a.setLate(false)
	a.write(id, "alone")
	require.Equal(t, 1, p.questions(), "one question is one entry")
	require.Equal(t, before, p.volume(id).Replication.Generation)
	p.link.SetCut(false)
	p.together(id)
	p.link.SetCut(true)
	a.write(id, "alone again")
	require.Equal(t, 2, p.questions(), "a new loss is a new question")
}

func TestS5_ADisklessPrimaryGoesOnAndIsAttachedAgain(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	for _, m := range []*member{a, b} {
		attach := p.volume(id).ReplicaSync(m.e.Host.ID).Attachment
		m.replica.FailDisk(id)
		a.write(id, "while "+string(m.node)+" had no disk")
		p.eventually("it is attached again", func() bool { return p.volume(id).ReplicaSync(m.e.Host.ID).Attachment > attach })
		p.together(id)
	}
}

// S2: what the node was before it was started again permits nothing.
func TestS2_AProcessThatIsStartedAgainAdoptsEverything(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	epoch := a.publish(id)
	a.stage(id, epoch)
	for _, m := range []*member{a, b} {
		m.mu.Lock()
		m.session = false
		m.mu.Unlock()
		require.NoError(t, m.e.Shutdown(t.Context()))
		attached := m.replica.Steps("attach")
		m.start(nil)
		a.write(id, "meanwhile")
		p.together(id)
		require.Equal(t, attached, m.replica.Steps("attach"), "what is attached stays so")
	}
	a.stage(id, epoch)
	a.unstage(id)
	a.unpublish(id)
	p.remove(id)
}

// A block that a target took and lost with its power is in no bitmap: it comes with all.
func TestATargetThatLosesPowerIsSynchronisedWholly(t *testing.T) {
	p, id := interrupted(t, 1)
	a, b := p.hosts[0], p.hosts[1]
	a.write(id, "while the target is away")
	b.start(nil)
	p.together(id)
	require.Equal(t, a.replica.Content(id), b.replica.Content(id))
	require.Equal(t, 1, b.replica.Steps("invalidate"))
	require.Zero(t, a.replica.Steps("invalidate"))
}

// A target whose source dies doubts nothing: it has what it took, whatever is tried meanwhile.
func TestATargetThatStoodAloneIsNotSynchronisedWholly(t *testing.T) {
	p, id := interrupted(t, 0)
	a, b := p.hosts[0], p.hosts[1]
	p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: string(id), NodeId: string(a.node)}}})
	p.eventually("it is disconnected", func() bool { return b.replica.Steps("disconnect") > 0 })
	a.start(nil)
	p.together(id)
	require.Zero(t, b.replica.Steps("invalidate"))
}

// interrupted is a volume that the first host wrote alone, and a host of it that lost its
// power while the second one was synchronised.
func interrupted(t *testing.T, dies int) (*pair, fsm.VolumeID) {
	t.Helper()
	p := newPair(t)
	a := p.hosts[0]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "first")
	p.link.SetCut(true)
	a.write(id, "alone")
	p.link.SetSyncTime(time.Hour)
	p.link.SetCut(false)
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
	p.together(id)
	p.eventually("the log knows that it is not staged", func() bool { return p.volume(id).Publication("n1").Staging == nil })
	a.stage(id, epoch)
	a.write(id, "and on")
	require.True(t, has(b.replica.Content(id), "acknowledged"))
	require.True(t, has(b.replica.Content(id), "and on"))
	a.unstage(id)
	a.unpublish(id)
	p.remove(id)
}

func (p *pair) setDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

func (m *member) setLate(late bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late = late
}

// questions counts those that are in the log.
func (p *pair) questions() int {
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

func TestS11_WithProtocolATheWriterGoesOnAndTheLogIsAskedNevertheless(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(fsmpb.Protocol_PROTOCOL_A)
	a.stage(id, a.publish(id))
	for range 2 {
		p.link.SetCut(true)
		acknowledged, err := a.replica.Write(id, "alone")
		require.NoError(t, err)
		require.True(t, acknowledged, "it does not freeze")
		p.eventually("the log knows that the peer misses something", func() bool { return p.volume(id).ReplicaSync(b.host()).Outdated })
		p.link.SetCut(false)
		p.together(id)
	}
	a.unstage(id)
	a.unpublish(id)
	p.remove(id)
}

// commands is how many the log has.
func (p *pair) commands() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.applied)
}

// isIn tells whether a host's replica is in a state.
func (p *pair) isIn(id fsm.VolumeID, m *member, state fsm.ReplicaState) bool {
	v := p.volume(id)
	if v == nil {
		return false
	}
	r := v.Replica(m.host())
	return r != nil && r.State == state
}

// A host that waits for its peer does not fill the log with what it said already.
func TestAHostSaysOnceThatItsDeviceIsMade(t *testing.T) {
	p := newPair(t)
	p.link.SetCut(true)
	id := p.startCreate(protocolC)
	p.eventually("both devices are made", func() bool {
		return p.isIn(id, p.hosts[0], fsm.ReplicaPresent) && p.isIn(id, p.hosts[1], fsm.ReplicaPresent)
	})
	p.eventually("it says little, once what is on its way arrived", func() bool {
		before := p.commands()
		time.Sleep(300 * time.Millisecond) // the property is about time
		return p.commands()-before <= 3
	})
	p.link.SetCut(false)
	p.eventually("the volume is ready", func() bool { return p.isReady(id) })
	p.remove(id)
}

// S31: the host of a replicated volume is asked to take it down; what uses it is named.
func TestS31_AReplicatedVolumeIsTakenDownWhenItsEndIsAskedFor(t *testing.T) {
	p := newPair(t)
	a := p.hosts[0]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	unpublish := func() error {
		_, err := p.try("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: string(id), NodeId: string(a.node)}}})
		return err
	}
	a.mount.setBusy(stagingPath, true)
	require.NoError(t, unpublish(), "its host is asked")
	publication := func() *fsm.Publication { return p.volume(id).Publication(a.node) }
	p.eventually("the host says what uses it", func() bool { return publication().UsedBy != "" })
	require.ErrorContains(t, unpublish(), "in use")
	require.True(t, a.mount.isMounted(id, stagingPath), "nothing is taken down by force")
	a.mount.setBusy(stagingPath, false)
	p.eventually("it is taken down", func() bool { return publication().Staging == nil })
	require.NoError(t, unpublish())
	p.together(id)
	p.remove(id)
}
