package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// moveRole moves the role from the one site to the other, in order.
func (p *pair) moveRole(id string, from, to *member) {
	p.t.Helper()
	p.eventually("demoted", func() bool {
		from.lastErr = from.at(&fsmpb.Command{Body: &fsmpb.Command_DemoteReplication{DemoteReplication: &fsmpb.DemoteReplication{Source: &fsmpb.ReplicationSource{VolumeId: id}}}})
		return from.lastErr == nil
	})
	p.eventually("promoted", func() bool {
		to.lastErr = to.at(&fsmpb.Command{Body: &fsmpb.Command_PromoteReplication{PromoteReplication: &fsmpb.PromoteReplication{Source: &fsmpb.ReplicationSource{VolumeId: id}}}})
		return to.lastErr == nil
	})
}

// S48, S9: a replica that is given up twice without being detached in between: what it wrote each time is kept.
func TestS48_WhatIsGivenUpTwiceInOneAttachmentIsKeptTwice(t *testing.T) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.createBetweenSites()
	for i, text := range []string{"first at A only", "second at A only"} {
		p.link.SetDisconnected(false)
		if i > 0 {
			p.stopUsing(id, b)
			p.moveRole(string(id), b, a)
		}
		a.primaryAt(id)
		p.link.SetDisconnected(true)
		a.write(id, text)
		p.stopUsing(id, a)
		a.disconnect()
		b.promoteByForce(id)
		b.primaryAt(id)
		b.write(id, "at B only")
		p.link.SetDisconnected(false)
		a.connect()
		kept := map[string]bool{}
		for _, n := range p.keptCopies() {
			kept[string(n.ID)] = n.Host == a.host()
		}
		a.resync(id, false)
		p.waitUpToDate(id)
		require.False(t, has(a.replicator.DiskContent(id), text))
		made := 0
		for _, n := range p.keptCopies() {
			if n.Host == a.host() && !kept[string(n.ID)] {
				made++
			}
		}
		require.Equal(t, 1, made, "copies of %q", text)
	}
}

// S48, S9: what B had was kept before a synchronisation that did not come; then B was used as it was, in the same
// attachment, and given up. What it wrote is kept before it is discarded: the earlier copy, of the same attachment, lacks it.
func TestS48_WhatWasWrittenAfterAnEarlierCopyIsKept(t *testing.T) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.createBetweenSites()
	a.primaryAt(id)
	a.write(id, "everywhere")
	p.link.SetDisconnected(true)
	a.write(id, "at A only")
	p.eventually("what B has is kept", func() bool { return b.pool.Snapshots() == 1 && len(p.keptCopies()) == 1 })
	a.crash()
	b.promoteByForce(id)
	b.primaryAt(id)
	b.write(id, "at B only")
	p.eventually("B is used as it is", func() bool { return p.volume(id).Replication.Revert == nil })
	a.start(nil)
	a.isApartWith(id, "at A only")
	p.link.SetSyncTime(1 << 40)
	p.link.SetDisconnected(false)
	a.resync(id, false)
	p.eventually("A is being synchronised", func() bool {
		return p.volume(id).ActiveReplica(a.host()).Observed.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
	})
	b.crash()
	p.link.SetSyncTime(1 << 20)
	a.promoteByForce(id)
	a.primaryAt(id)
	a.write(id, "at A again")
	require.True(t, has(b.replicator.DiskContent(id), "at B only"))

	p.eventually("nothing is being removed", func() bool { return p.keptMatchesLog(b) })
	kept := map[fsm.SnapshotID]bool{}
	for _, n := range p.keptCopies() {
		kept[n.ID] = n.Host == b.host()
	}
	b.start(nil)
	b.isApartWith(id, "at B only")
	b.resync(id, false)
	p.eventually("what B had is discarded", func() bool { return !has(b.replicator.DiskContent(id), "at B only") })
	for _, n := range p.keptCopies() {
		if n.Host == b.host() && !kept[n.ID] {
			return
		}
	}
	require.Fail(t, "nothing was kept of what B wrote")
}
