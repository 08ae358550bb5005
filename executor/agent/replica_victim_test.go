package agent_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S9: while the kernel runs its helper for a disk that is being detached, the disk is Failed and
// still attached. Resuming I/O then would begin a generation of its own on the victim, and the
// next handshake would find a split brain.
func TestS9_AVictimResumesOnlyWithoutItsDisk(t *testing.T) {
	t.Parallel()
	for name, cutOff := range map[string]bool{"from the controllers only": false, "from its peer and the controllers": true} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			a, b := p.hosts[0], p.hosts[1]
			id := p.create(protocolC)
			p.takeOverFromCutOff(id, a, b, cutOff)
			release := a.replicator.HoldHelper()
			a.connect()
			p.link.SetDisconnected(false)
			p.eventually("it is looked at while the disk is Failed", func() bool { return a.replicator.Steps("observe-failed") > 2 })
			_, frozen := a.replicator.Primary(id)
			require.True(t, frozen, "the helper has not ended")
			release()
			p.waitUpToDate(id)
			require.Zero(t, a.replicator.Steps("resume-failed"))
			require.Zero(t, p.link.SplitBrains())
			require.True(t, has(a.replicator.DiskContent(id), "after the takeover"))
			b.unstage(id)
			b.unpublish(id)
			p.remove(id)
		})
	}
}

// S9, S67: the process that detached a victim's disk dies before the victim is torn down. The next one does not take the disk for one
// that failed: what it lacks is copied by the bitmaps. A victim that is unmounted before it is looked at does not pass every point.
func TestS9_AVictimsDiskDidNotFailForTheNextProcess(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"detach-disk.after", "end-freeze.shut-down", "end-loser.down"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			const attempts = 10
			for range attempts {
				if victimStoppedAt(t, point) {
					return
				}
			}
			require.Fail(t, "no victim passed the point", "%d attempts", attempts)
		})
	}
}

// victimStoppedAt stops a victim's process at a point, and tells whether that was passed.
func victimStoppedAt(t *testing.T, point string) bool {
	t.Helper()
	p := newStoppedPair(t)
	a, b := p.hosts[0], p.hosts[1]
	a.start(stopAt(point, 0))
	b.start(nil)
	id := p.create(protocolC)
	p.takeOverFromCutOff(id, a, b, true)
	a.connect()
	p.link.SetDisconnected(false)
	p.waitUpToDate(id)
	stopped := a.faults == nil
	require.Zero(t, a.replicator.Steps("remake-metadata"))
	require.True(t, has(a.replicator.DiskContent(id), "after the takeover"))
	require.Zero(t, p.link.SplitBrains())
	b.unstage(id)
	b.unpublish(id)
	p.remove(id)
	return stopped
}

// S9: the host hears from the verdict that its replica is outdated, and of what is desired since only later, also where the
// session tells of other things meanwhile. Until then it attaches nothing below those who wrote, and connects nothing. What
// they wrote is kept before it is attached again.
func TestS9_AVictimMayKnowItFromTheVerdictAlone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ cutOff, toldOfOthers bool }{
		"from the controllers only":               {},
		"from its peer and the controllers":       {cutOff: true},
		"and its session tells of others":         {toldOfOthers: true},
		"from its peer, and it is told of others": {cutOff: true, toldOfOthers: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			a, b := p.hosts[0], p.hosts[1]
			id := p.create(protocolC)
			p.takeOverFromCutOff(id, a, b, tc.cutOff)
			a.holdUpdates()
			if tc.toldOfOthers {
				a.hearsOfOthersBeforeVerdicts()
			}
			a.reopenDevice()
			p.link.SetDisconnected(false)
			p.eventually("its writers have ended, and it is attached again", func() bool {
				primary, frozen := a.replicator.Primary(id)
				return !primary && !frozen && a.attached(2)
			})
			require.True(t, a.keptBefore(2))
			require.Zero(t, a.replicator.Steps("attach-primary"), "below a primary")
			require.False(t, has(a.replicator.DiskContent(id), "after the takeover"), "it is not connected")
			a.connect()
			p.waitUpToDate(id)
			require.Len(t, p.keptCopies(), 1)
			require.Zero(t, p.link.SplitBrains())
			require.True(t, has(a.replicator.DiskContent(id), "after the takeover"))
			b.unstage(id)
			b.unpublish(id)
			p.remove(id)
		})
	}
}

// hearsOfOthersBeforeVerdicts has an update that does not list the volume arrive before each verdict.
func (m *member) hearsOfOthersBeforeVerdicts() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.beforeAnswer = func(cmd *fsmpb.Command) {
		if cmd.GetOutdate() == nil {
			return
		}
		m.mu.Lock()
		u, e := m.update(), m.e
		m.mu.Unlock()
		e.Update(u)
	}
}

// attached tells whether the log has an attachment of this host.
func (m *member) attached(number uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.appliedAttachment(number) >= 0
}

// appliedAttachment is where in the log an attachment of this host is; -1: nowhere. The caller holds mu.
func (m *member) appliedAttachment(number uint64) int {
	return slices.IndexFunc(m.applied, func(c *fsmpb.Command) bool {
		a := c.GetAttachReplica()
		return a.GetNodeId() == string(m.node) && a.GetAttach() == number
	})
}

// keptBefore tells whether this host kept what it had before it was attached again.
func (m *member) keptBefore(number uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := slices.IndexFunc(m.applied, func(c *fsmpb.Command) bool { return c.GetKeepReplica().GetNodeId() == string(m.node) })
	return kept >= 0 && kept < m.appliedAttachment(number)
}

// takeOverFromCutOff has b go on without a, which is cut off from the controllers while it writes, and from its peer if that is said.
func (p *pair) takeOverFromCutOff(id fsm.VolumeID, a, b *member, fromPeer bool) {
	p.t.Helper()
	a.stage(id, a.publish(id))
	a.write(id, "acknowledged")
	a.disconnect()
	p.link.SetDisconnected(fromPeer)
	a.unpublish(id)
	b.stage(id, b.publish(id))
	b.write(id, "after the takeover")
}

// S67: a victim's disk could not be detached, and its writers went on when the peer returned. When it fails later, in the same
// attachment, it did fail: its primary goes on with the peer's disk, and it is copied wholly.
func TestS67_ADiskThatCouldNotBeDetachedMayFailLater(t *testing.T) {
	p := newPair(t)
	a := p.hosts[0]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "acknowledged")
	a.replicator.SetDetachFails(true)
	a.disconnect()
	p.link.SetDisconnected(true)
	a.endPublication(id)
	a.connect()
	p.eventually("it is to be detached", func() bool { return a.replicator.Steps("detach") > 0 })
	p.link.SetDisconnected(false)
	p.eventually("its publication has ended", func() bool { return len(p.volume(id).Teardowns) == 0 })
	attachment := p.volume(id).ActiveReplica(a.host()).Attachment
	a.replicator.SetDetachFails(false)
	a.stage(id, a.publish(id))
	require.Equal(t, attachment, p.volume(id).ActiveReplica(a.host()).Attachment, "otherwise this proves nothing")
	detached := a.replicator.Steps("detach")
	a.replicator.FailDisk(id)
	a.write(id, "meanwhile")
	p.eventually("it is attached again", func() bool { return p.volume(id).ActiveReplica(a.host()).Attachment > attachment })
	p.waitUpToDate(id)
	a.holdsAll(id, "acknowledged", "meanwhile")
	require.Equal(t, 1, a.replicator.Steps("remake-metadata"))
	require.Equal(t, detached, a.replicator.Steps("detach"))
	primary, _ := a.replicator.Primary(id)
	require.True(t, primary, "its writers went on")
	a.unstage(id)
	a.unpublish(id)
	p.remove(id)
}
