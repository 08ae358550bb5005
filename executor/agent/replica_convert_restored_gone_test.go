package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// relocateTo demotes the other site, and promotes the member's.
func (m *member) relocateTo(from *member, id fsm.VolumeID) {
	m.t.Helper()
	m.eventually("site "+siteOf(from.i)+" is demoted", func() bool {
		from.lastErr = from.at(&fsmpb.Command{Body: &fsmpb.Command_DemoteReplication{DemoteReplication: &fsmpb.DemoteReplication{Source: sourceOf(id)}}})
		return from.lastErr == nil
	})
	m.eventually("site "+siteOf(m.i)+" is promoted", func() bool {
		m.lastErr = m.at(&fsmpb.Command{Body: &fsmpb.Command_PromoteReplication{PromoteReplication: &fsmpb.PromoteReplication{Source: sourceOf(id)}}})
		return m.lastErr == nil
	})
}

// onlyAtB is a volume that was converted at A, moved to site B for good, and has no replica at A any more: A's image is gone. It was
// written at B since. It returns the log's length in the middle of the conversion.
func onlyAtB(t *testing.T, inTheMiddle func(p *pair, id fsm.VolumeID) int) (*pair, fsm.VolumeID, int) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.createPlain()
	n := inTheMiddle(p, id)
	if n == 0 {
		p.enable(id)
		p.waitUpToDate(id)
		n = p.conversionOnSeed()
	}
	b.relocateTo(a, id)
	require.NoError(t, b.at(&fsmpb.Command{Body: &fsmpb.Command_DisableReplication{DisableReplication: &fsmpb.DisableReplication{Source: sourceOf(id)}}}))
	p.eventually("A's replica is removed", func() bool {
		_, a.lastErr = p.try("admin/a", &fsmpb.Command{Body: &fsmpb.Command_RemoveReplica{RemoveReplica: &fsmpb.RemoveReplica{VolumeId: string(id), NodeId: "n1", HostId: string(a.host()), Reason: "moved to B for good"}}})
		return a.lastErr == nil && a.pool.Images() == 0
	})
	b.primaryAt(id)
	b.write(id, "at B only")
	b.endUse(id)
	require.True(t, has(b.replicator.DiskContent(id), "at B only"))
	return p, id, n
}

// S1, S71: the log is restored to the middle of a conversion that was done; later the volume moved to the second site, and the
// first one's replica was removed. The seed's host has no image at all: that is not "it was never converted".
func TestS71_RestoredConversionWhoseSeedsImageIsGone(t *testing.T) {
	t.Parallel()
	p, id, n := onlyAtB(t, func(*pair, fsm.VolumeID) int { return 0 })
	b := p.hosts[1]
	p.restore(n)
	require.True(t, p.volume(id).Replication.Conversion.Restored)
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) {
		// what policy.Monitor does with each conversion that is late, or cannot go on
		if v := p.volume(id); v.Replication != nil && v.Replication.Conversion != nil && !v.Replication.Conversion.Undoing && !v.ConversionInDoubt() {
			p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CancelConversion{CancelConversion: &fsmpb.CancelConversion{VolumeId: string(id), Began: v.Replication.Conversion.Began}}})
		}
		if b.pool.Images() == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	require.Equal(t, 1, b.pool.Images(), "the only copy, at B, was removed")
	require.True(t, has(b.replicator.DiskContent(id), "at B only"))
	require.False(t, p.volume(id).PeerReplica(p.hosts[0].host()).Outdated, "the only copy is to be discarded")
}

// S1, S71: the same, and the backup is of when an earlier conversion was being undone: B's copy is removed with nobody asked.
func TestS71_RestoredUndoingConversionWhoseSeedsImageIsGone(t *testing.T) {
	t.Parallel()
	p, id, n := onlyAtB(t, func(p *pair, id fsm.VolumeID) int {
		a, b := p.hosts[0], p.hosts[1]
		p.link.SetDisconnected(true)
		p.enable(id)
		p.eventually("its disk is attached", func() bool { return a.replicator.Steps("attach") > 0 })
		require.True(t, p.cancelConversion(id))
		n := 0
		p.mu.Lock()
		for i, cmd := range p.applied {
			if cmd.GetCancelConversion() != nil && n == 0 {
				n = i + 1
			}
		}
		p.mu.Unlock()
		p.eventually("it is plain", func() bool {
			v := p.volume(id)
			return v.Replication == nil && v.Unconverted == nil && b.pool.Images() == 0
		})
		p.link.SetDisconnected(false)
		p.enable(id)
		p.waitUpToDate(id)
		return n
	})
	b := p.hosts[1]
	p.restore(n)
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) && b.pool.Images() > 0 {
		time.Sleep(5 * time.Millisecond)
	}
	require.Equal(t, 1, b.pool.Images(), "the only copy, at B, was removed")
	require.True(t, has(b.replicator.DiskContent(id), "at B only"))
}
