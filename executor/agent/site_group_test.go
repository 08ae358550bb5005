package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const testGroup = "hg-00000000-0000-4000-8000-000000000001"

func testGroupSource() *fsmpb.ReplicationSource {
	return &fsmpb.ReplicationSource{VolumeGroupId: testGroup}
}

// groupBetweenSites is two volumes of one group that is replicated together, up to date at both sites.
func (p *pair) groupBetweenSites() (first, second fsm.VolumeID) {
	p.t.Helper()
	first, second = p.createPlain(), p.createPlain()
	a := p.hosts[0]
	require.NoError(p.t, a.at(&fsmpb.Command{Body: &fsmpb.Command_CreateVolumeGroup{CreateVolumeGroup: &fsmpb.CreateVolumeGroup{
		VolumeGroupId: testGroup, Name: "group", VolumeIds: []string{string(first), string(second)}, MaxVolumes: 5}}}))
	require.NoError(p.t, a.at(&fsmpb.Command{Body: &fsmpb.Command_EnableReplication{EnableReplication: &fsmpb.EnableReplication{Source: testGroupSource(), PeerSite: "B"}}}))
	p.waitUpToDate(first)
	p.waitUpToDate(second)
	return first, second
}

// forcesGroup promotes the group by force at the member's site; false where that would make it one of two instants (S44).
func (m *member) forcesGroup() (promoted bool) {
	m.t.Helper()
	m.eventually("the force is answered", func() bool {
		m.lastErr = m.at(&fsmpb.Command{Body: &fsmpb.Command_PromoteReplication{PromoteReplication: &fsmpb.PromoteReplication{Source: testGroupSource(), Force: true}}})
		promoted = m.lastErr == nil
		return promoted || strings.Contains(m.lastErr.Error(), "instants")
	})
	return promoted
}

// stagesForced stages a member of the group that was promoted by force. A part of its replica may have been overwritten, which its
// host reported after the force: it goes back to what was kept when the force is repeated, as orchestrators do, or cannot be used
// where nothing was kept.
func (m *member) stagesForced(id fsm.VolumeID, path string) (staged bool) {
	m.t.Helper()
	epoch, kept := m.publishAt(id), true
	m.eventually("it is staged, or nothing was kept", func() bool {
		ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Second)
		defer cancel()
		m.lastErr = m.e.Stage(ctx, executor.StageRequest{Volume: id, Epoch: epoch, Path: path, Capability: mountCap, Keys: append(m.stageKeys, rightKeys...)})
		if staged = m.lastErr == nil; !staged {
			m.lastErr = m.at(&fsmpb.Command{Body: &fsmpb.Command_PromoteReplication{PromoteReplication: &fsmpb.PromoteReplication{Source: testGroupSource(), Force: true}}})
			kept = m.lastErr == nil || !strings.Contains(m.lastErr.Error(), "kept no copy")
		}
		return staged || !kept
	})
	return staged
}

// S52, S67: the connection of one member is lost while the disk of another one's primary is being copied from its peer: the link is
// whole all the time.
func TestS52_S67_NobodyIsCutFromTheOnlyWholeCopy(t *testing.T) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	first, second := p.groupBetweenSites()
	a.stageAt(first, "/stage/1")
	a.stageAt(second, "/stage/2")
	a.write(first, "one")
	a.write(second, "two")
	p.link.SetSyncTime(time.Hour)
	attachment := p.volume(second).ActiveReplica(a.host()).Attachment
	a.replicator.FailDisk(second)
	a.write(second, "through the peer")
	p.eventually("it is attached again", func() bool { return p.volume(second).ActiveReplica(a.host()).Attachment > attachment })
	p.eventually("it is being copied", func() bool {
		return p.volume(second).ActiveReplica(a.host()).Observed.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
	})
	a.write(second, "while it is copied")
	p.eventually("the first one's loss is asked about", func() bool { // its connection is lost again and again, until A asks
		_ = b.replicator.Disconnect(t.Context(), first)
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, cmd := range p.applied {
			if cmd.GetOutdate().GetVolumeId() == string(first) {
				return true
			}
		}
		return false
	})
	a.write(first, "and on")
	a.write(second, "and on")
}

// S48, S51: force promotes a group of which one member is whole at B, and nobody uses that one there. A returns and is resynchronised.
func TestS48_AMemberThatWasNotBehindIsResynchronised(t *testing.T) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	first, _ := p.groupBetweenSites()
	a.stageAt(first, "/stage/1")
	a.write(first, "one")
	p.link.SetDisconnected(true)
	a.write(first, "alone")
	a.crash()
	p.link.SetDisconnected(false)
	require.True(t, b.forcesGroup())
	b.stageAt(first, "/stage/1")
	b.write(first, "at B")
	a.start(nil)
	p.eventually("A is demoted", func() bool {
		a.lastErr = a.at(&fsmpb.Command{Body: &fsmpb.Command_DemoteReplication{DemoteReplication: &fsmpb.DemoteReplication{Source: testGroupSource()}}})
		return a.lastErr == nil
	})
	for range 2 {
		require.NoError(t, a.at(&fsmpb.Command{Body: &fsmpb.Command_ResyncReplication{ResyncReplication: &fsmpb.ResyncReplication{Source: testGroupSource(), Force: true}}}))
	}
	p.waitUpToDate(first)
	p.eventually("S48: a resynchronisation that was asked for with force ends", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		ready, _, _ := p.state.ResyncReady(testGroupSource(), fsm.SiteFrom("A"))
		return ready
	})
}

// S44: both members are copied again after a cut. A, which reaches no controller now, is lost when the second one is copied wholly and the first
// one in part: force takes the first one back to the cut, and leaves the second one as it is, which has all of today.
func TestS44_ACopyThatEndedUnreported(t *testing.T) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	first, second := p.groupBetweenSites()
	a.stageAt(first, "/stage/1")
	a.stageAt(second, "/stage/2")
	pair := func(text string) {
		a.write(first, text)
		a.write(second, text)
	}
	pair("before")
	p.link.SetDisconnected(true)
	pair("alone")
	p.eventually("B is left behind", func() bool {
		return p.volume(first).ActiveReplica(b.host()).Outdated && p.volume(second).ActiveReplica(b.host()).Outdated
	})
	p.link.SetSyncTime(time.Hour)
	p.link.SetDisconnected(false)
	for _, id := range []fsm.VolumeID{first, second} {
		p.eventually("it is being copied", func() bool {
			return p.volume(id).ActiveReplica(b.host()).Observed.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
		})
	}
	a.disconnect()
	p.link.FinishSync(second)
	p.eventually("the second one is copied", func() bool {
		return p.volume(second).ActiveReplica(b.host()).Observed.Disk == fsmpb.DiskState_DISK_STATE_UP_TO_DATE
	})
	a.crash()
	if !b.forcesGroup() || !b.stagesForced(first, "/stage/1") || !b.stagesForced(second, "/stage/2") {
		return
	}
	require.Equal(t, has(b.replicator.DiskContent(first), "alone"), has(b.replicator.DiskContent(second), "alone"), "S44, S52: a group of two instants, and nobody consented to that")
}

// S52: the link is lost for a moment. The first member's question is answered while the second one's connection is lost as well; that comes back
// before its own question is answered. Then the first one goes on alone and the second one with its peer.
func TestS52_AConnectionThatComesBack(t *testing.T) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	first, second := p.groupBetweenSites()
	a.stageAt(first, "/stage/1")
	a.stageAt(second, "/stage/2")
	a.write(first, "before")
	a.write(second, "before")
	p.link.SetSyncTime(time.Hour)
	a.mu.Lock()
	a.answer = func(cmd *fsmpb.Command) *fsmpb.Outcome { // the second one's question is slow
		o := cmd.GetOutdate()
		if o.GetVolumeId() != string(second) {
			if v, _ := a.state.Volume(second); o != nil && v.ActiveReplica(fsm.HostID("")) == nil && b.seesConnected(v) {
				return &fsmpb.Outcome{VolumeId: string(first), Verdict: fsmpb.Verdict_VERDICT_STALE, Generation: o.GetGeneration()} // a little later
			}
			return nil
		}
		return &fsmpb.Outcome{VolumeId: string(second), Verdict: fsmpb.Verdict_VERDICT_STALE, Generation: o.GetGeneration()}
	}
	a.mu.Unlock()
	p.link.SetDisconnected(true)
	p.eventually("the first one may go on alone", func() bool { return p.volume(first).ActiveReplica(b.host()).Outdated })
	p.link.SetDisconnected(false)
	a.mu.Lock()
	a.answer = nil
	a.mu.Unlock()
	a.write(first, "alone")
	a.write(second, "depends on it")
	if !has(b.replicator.DiskContent(second), "depends on it") {
		return // it was cut
	}
	p.eventually("B's host has said that it is connected", func() bool { // a host is lost some seconds after its last word
		return !b.replicator.Connected(second) || p.volume(second).ActiveReplica(b.host()).Observed.Connected()
	})
	a.crash()
	if !b.forcesGroup() || !b.stagesForced(first, "/stage/1") || !b.stagesForced(second, "/stage/2") {
		return
	}
	require.False(t, has(b.replicator.DiskContent(second), "depends on it"), "S52: what it depends on is not there")
}

// seesConnected tells whether the log's last observation of the member's host is that it is connected. The caller holds mu.
func (m *member) seesConnected(v *fsm.Volume) bool {
	n, _ := m.state.Node(m.node)
	l := v.ActiveReplica(n.Host)
	return l == nil || l.Observed.Connected()
}

// stageAt publishes to the member through its site and stages at a path.
func (m *member) stageAt(id fsm.VolumeID, path string) fsm.Epoch {
	m.t.Helper()
	epoch := m.publishAt(id)
	m.retry("stage", func(ctx context.Context) error {
		return m.e.Stage(ctx, executor.StageRequest{Volume: id, Epoch: epoch, Path: path, Capability: mountCap, Keys: append(m.stageKeys, rightKeys...)})
	})
	return epoch
}
