package agent_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// emptied has the member's data folder emptied while its process does not run, and has the host recorded as lost.
func (m *member) emptied() {
	m.t.Helper()
	old := m.host()
	m.stop()
	require.NoError(m.t, os.RemoveAll(m.dir))
	m.must("admin/a", &fsmpb.Command{Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{NodeId: string(m.node), HostId: string(old), Reason: "its data folder is empty"}}})
	m.start(nil)
	require.NotEqual(m.t, old, m.host())
}

// The secondary's data folder is emptied under a live kernel; its pool is whole.
func TestS12_ASecondarysDataFolderIsEmptied(t *testing.T) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.createBetweenSites()
	a.primaryAt(id)
	a.write(id, "one")
	b.emptied()
	a.write(id, "two")
	p.must("admin/a", &fsmpb.Command{Body: &fsmpb.Command_AddReplica{AddReplica: &fsmpb.AddReplica{VolumeId: string(id), NodeId: "n2", Reason: "test"}}})
	a.write(id, "three")
	p.waitUpToDate(id)
	b.holdsAll(id, "one", "two", "three")
	a.holdsAll(id, "one", "two", "three")
	require.Zero(t, p.link.SplitBrains())
	require.Zero(t, a.replicator.Steps("invalidate"))
}

// The primary's data folder is emptied while a workload writes.
func TestS12_APrimarysDataFolderIsEmptied(t *testing.T) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.createBetweenSites()
	a.primaryAt(id)
	a.write(id, "one")
	ofConversion := b.replicator.Steps("invalidate")
	a.emptied()
	b.promoteByForce(id)
	b.primaryAt(id)
	b.write(id, "two")
	p.must("admin/a", &fsmpb.Command{Body: &fsmpb.Command_AddReplica{AddReplica: &fsmpb.AddReplica{VolumeId: string(id), NodeId: "n1", Reason: "test"}}})
	b.write(id, "three")
	acknowledged, _ := a.replicator.Write(id, "by nobody")
	require.False(t, acknowledged)
	a.crash() // its mount is in the way; an operator reboots it
	a.start(nil)
	p.waitUpToDate(id)
	a.holdsAll(id, "one", "two", "three")
	b.holdsAll(id, "one", "two", "three")
	require.Zero(t, p.link.SplitBrains())
	require.Equal(t, ofConversion, b.replicator.Steps("invalidate"))
}

// The secondary's pool is wiped: its image is gone, its data folder is there.
func TestS12_ASecondarysPoolIsWiped(t *testing.T) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.createBetweenSites()
	a.primaryAt(id)
	a.write(id, "one")
	b.crash()
	a.write(id, "two")
	require.NoError(t, b.pool.Remove(t.Context(), id))
	b.start(nil)
	p.eventually("it is missing", func() bool { return p.volume(id).Condition.Abnormal })
	a.write(id, "three")
	p.eventually("the missing replica may be removed", func() bool { // A's host may have reported nothing in this generation yet
		_, b.lastErr = p.try("admin/a", &fsmpb.Command{Body: &fsmpb.Command_RemoveReplica{RemoveReplica: &fsmpb.RemoveReplica{VolumeId: string(id), NodeId: "n2", HostId: string(b.host()), Reason: "test"}}})
		return b.lastErr == nil
	})
	p.eventually("the replica is gone", func() bool { return len(p.volume(id).Replicas) == 1 })
	p.must("admin/a", &fsmpb.Command{Body: &fsmpb.Command_AddReplica{AddReplica: &fsmpb.AddReplica{VolumeId: string(id), NodeId: "n2", Reason: "test"}}})
	p.waitUpToDate(id)
	a.holdsAll(id, "one", "two", "three")
	b.holdsAll(id, "one", "two", "three")
}

// A fenced host of the primary's site: promote, use, unfence, and back.
func TestS58_AFencedPrimaryOfASite(t *testing.T) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.createBetweenSites()
	a.primaryAt(id)
	a.write(id, "one")
	fence := &fsmpb.FenceNetwork{Cidrs: []string{fencedCIDR}}
	require.NoError(t, b.at(&fsmpb.Command{Body: &fsmpb.Command_FenceNetwork{FenceNetwork: fence}}))
	p.eventually("site B is promoted", func() bool {
		b.lastErr = b.at(&fsmpb.Command{Body: &fsmpb.Command_PromoteReplication{PromoteReplication: &fsmpb.PromoteReplication{Source: sourceOf(id)}}})
		return b.lastErr == nil
	})
	b.primaryAt(id)
	b.write(id, "two")
	require.NoError(t, b.at(&fsmpb.Command{Body: &fsmpb.Command_UnfenceNetwork{UnfenceNetwork: &fsmpb.UnfenceNetwork{Cidrs: []string{fencedCIDR}}}}))
	a.connect()
	p.eventually("it serves again", func() bool { return !p.isFenced(a) })
	require.NoError(t, a.at(&fsmpb.Command{Body: &fsmpb.Command_DemoteReplication{DemoteReplication: &fsmpb.DemoteReplication{Source: sourceOf(id)}}}))
	a.resync(id, false)
	p.waitUpToDate(id)
	for _, m := range p.hosts {
		m.holdsAll(id, "one", "two")
	}
	require.Zero(t, p.link.SplitBrains())
}

// A fenced host goes on alone before it hears of anything, is promoted over by force, unfenced, and asks for the role again.
func TestS48_S58_AFencedPrimaryThatIsAlone(t *testing.T) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.createBetweenSites()
	a.primaryAt(id)
	a.write(id, "one")
	p.link.SetDisconnected(true)
	a.write(id, "alone")
	p.eventually("B is outdated", func() bool { return p.volume(id).ActiveReplica(b.host()).Outdated })
	require.NoError(t, b.at(&fsmpb.Command{Body: &fsmpb.Command_FenceNetwork{FenceNetwork: &fsmpb.FenceNetwork{Cidrs: []string{fencedCIDR}}}}))
	b.promoteByForce(id)
	b.primaryAt(id)
	b.write(id, "two")
	p.link.SetDisconnected(false)
	p.eventually("the fenced host ended its use", func() bool { return len(p.volume(id).Teardowns) == 0 })
	require.NoError(t, b.at(&fsmpb.Command{Body: &fsmpb.Command_UnfenceNetwork{UnfenceNetwork: &fsmpb.UnfenceNetwork{Cidrs: []string{fencedCIDR}}}}))
	a.connect()
	p.eventually("it serves again", func() bool { return !p.isFenced(a) })
	require.Error(t, a.at(&fsmpb.Command{Body: &fsmpb.Command_PromoteReplication{PromoteReplication: &fsmpb.PromoteReplication{Source: sourceOf(id), Force: true}}}))
	require.True(t, has(a.replicator.DiskContent(id), "alone"), "S48: it stays whole")
	a.resync(id, false)
	p.waitUpToDate(id)
	copies := 0
	p.mu.Lock()
	for n := range p.state.KeptCopies() {
		if n.Node == a.node {
			copies++
		}
	}
	p.mu.Unlock()
	require.Equal(t, 1, copies, "S48")
	for _, m := range p.hosts {
		m.holdsAll(id, "one", "two")
	}
}

// The host with the content is fenced in the middle of a conversion, which is undone; it is used again after that.
func TestS55_S58_AFencedSeed(t *testing.T) {
	p := newSites(t)
	a := p.hosts[0]
	id := p.createPlain()
	before := a.pool.Content(id)
	p.enable(id)
	p.must("admin/a", &fsmpb.Command{Body: &fsmpb.Command_FenceNetwork{FenceNetwork: &fsmpb.FenceNetwork{Cidrs: []string{fencedCIDR}}}})
	if r := p.volume(id).Replication; r != nil && r.Conversion != nil {
		p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CancelConversion{CancelConversion: &fsmpb.CancelConversion{VolumeId: string(id), Began: r.Conversion.Began}}})
		p.eventually("it is a plain volume", func() bool { v := p.volume(id); return v.Replication == nil && v.Unconverted == nil })
		require.Equal(t, before, a.pool.Content(id))
	}
	p.must("admin/a", &fsmpb.Command{Body: &fsmpb.Command_UnfenceNetwork{UnfenceNetwork: &fsmpb.UnfenceNetwork{Cidrs: []string{fencedCIDR}}}})
	a.connect()
	p.eventually("it serves again", func() bool { return !p.isFenced(a) })
	p.eventually("enabled again", func() bool {
		a.lastErr = a.at(&fsmpb.Command{Body: &fsmpb.Command_EnableReplication{EnableReplication: &fsmpb.EnableReplication{Source: sourceOf(id), PeerSite: "B"}}})
		return a.lastErr == nil
	})
	p.waitUpToDate(id)
}
