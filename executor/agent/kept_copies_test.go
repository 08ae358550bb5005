package agent_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// failOver has a lose its power while it is primary, and b take over.
func (p *pair) failOver(id fsm.VolumeID, a, b *member, text string) {
	p.t.Helper()
	a.stage(id, a.publish(id))
	a.write(id, text+" acknowledged")
	a.crash()
	a.unpublish(id)
	b.stage(id, b.publish(id))
	b.write(id, text+" after the takeover")
}

// stopUsing unpublishes the volume from m.
func (p *pair) stopUsing(id fsm.VolumeID, m *member) {
	p.t.Helper()
	m.unstage(id)
	m.unpublish(id)
	p.eventually("nobody is primary", func() bool { primary, _ := m.replicator.Primary(id); return !primary })
}

// keptCopies are the copies that the log has, the oldest first.
func (p *pair) keptCopies() (all []fsm.Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.state.Snapshots("") {
		if n.KeptCopy != nil {
			all = append(all, *n)
		}
	}
	slices.SortFunc(all, func(a, b fsm.Snapshot) int { return int(a.Created.Index) - int(b.Created.Index) })
	return all
}

// keptMatchesLog reports whether the host has exactly the copies that the log says it keeps.
func (p *pair) keptMatchesLog(m *member) bool {
	items, err := m.pool.Inventory(p.t.Context())
	require.NoError(p.t, err)
	found := map[fsm.SnapshotID]bool{}
	for _, item := range items {
		if item.Kind == executor.KindSnapshot {
			found[item.Snapshot] = true
		}
	}
	for _, n := range p.keptCopies() {
		if n.Host == m.host() && (n.Phase != fsm.SnapshotReady || !found[n.ID]) {
			return false
		}
		delete(found, n.ID)
	}
	return len(found) == 0
}

// S49: a victim's data are recorded as a kept copy before they are discarded, once. The copy ends
// when an operator removes it, and with the volume.
func TestS49_TheLogKnowsWhatAVictimKeeps(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	p.failOver(id, a, b, "first")
	a.start(nil)
	p.waitUpToDate(id)
	all := p.keptCopies()
	require.Len(t, all, 1)
	require.Equal(t, []any{fsm.SnapshotReady, id, a.host(), testSize}, []any{all[0].Phase, all[0].Source, all[0].Host, int(all[0].Size)})
	require.True(t, p.keptMatchesLog(a))
	p.requireOrder("SnapshotKept", "SYNC_TARGET")

	p.must("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_DeleteSnapshot{DeleteSnapshot: &fsmpb.DeleteSnapshot{SnapshotId: string(all[0].ID)}}})
	p.eventually("it is removed", func() bool { return len(p.keptCopies()) == 0 && a.pool.Snapshots() == 0 })
	p.stopUsing(id, b)
	p.failOver(id, a, b, "second")
	a.start(nil)
	p.waitUpToDate(id)
	require.Len(t, p.keptCopies(), 1)
	p.stopUsing(id, b)
	p.remove(id)
	p.eventually("the copy goes with the volume", func() bool { return len(p.keptCopies()) == 0 && a.pool.Snapshots() == 0 })
}

// S49: both hosts lose, one after the other and in attachments of the same number: each keeps what it had, and
// is synchronised.
func TestS49_BothHostsKeepWhatTheyLost(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	p.losesAndReturns(id, a, b)
	p.losesAndReturns(id, b, a)
	kept := p.keptAttachments()
	require.Len(t, kept, 2)
	for range 5 { // a process that sees its disk go may record the next attachment before it dies, too
		switch kept = p.keptAttachments(); {
		case kept[a.host()] < kept[b.host()]:
			p.losesAndReturns(id, a, b)
		case kept[a.host()] > kept[b.host()]:
			p.losesAndReturns(id, b, a)
		}
	}
	kept = p.keptAttachments()
	require.Equal(t, kept[a.host()], kept[b.host()], "otherwise this proves nothing")
	p.remove(id)
}

// losesAndReturns has a host lose its power while it is primary, and come back while the other one goes on.
func (p *pair) losesAndReturns(id fsm.VolumeID, loser, other *member) {
	p.t.Helper()
	p.failOver(id, loser, other, string(loser.node)+" loses")
	loser.start(nil)
	p.waitUpToDate(id)
	p.stopUsing(id, other)
}

// keptAttachments is the last attachment of each host whose content was kept.
func (p *pair) keptAttachments() map[fsm.HostID]uint64 {
	kept := map[fsm.HostID]uint64{}
	for _, n := range p.keptCopies() {
		kept[n.Host] = max(kept[n.Host], n.KeptCopy.Attachment)
	}
	return kept
}

// requireOrder: of the applied commands, one precedes the first of the other after it.
func (p *pair) requireOrder(first, second string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	is := func(word string) func(*fsmpb.Command) bool {
		return func(c *fsmpb.Command) bool {
			return slices.ContainsFunc(c.GetReport().GetObservations(), func(o *fsmpb.Observation) bool {
				return word == "SnapshotKept" && o.GetSnapshotKept() != nil ||
					word == "SYNC_TARGET" && o.GetReplicaSeen().GetConnection() == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
			})
		}
	}
	at := slices.IndexFunc(p.applied, is(first))
	require.GreaterOrEqual(p.t, at, 0, first)
	before := slices.IndexFunc(p.applied, is(second))
	require.True(p.t, before < 0 || before > at, "%s before %s", second, first)
}

// S49: a host that is a victim again and again keeps two copies, and its pool has no others.
func TestS49_AFlappingHostDoesNotFillThePool(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	for range 4 {
		p.failOver(id, a, b, "again")
		a.start(nil)
		p.waitUpToDate(id)
		p.stopUsing(id, b)
	}
	p.eventually("two are kept", func() bool { return len(p.keptCopies()) == 2 && a.pool.Snapshots() == 2 && p.keptMatchesLog(a) })
	p.remove(id)
}

// S49, S66: a victim without room for the copy discards nothing. The volume's condition says so,
// and the replica continues when there is room.
func TestS49_WithoutRoomNothingIsDiscarded(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	p.failOver(id, a, b, "first")
	var full atomic.Bool
	full.Store(true)
	a.pool.SetFail(func(effect string, _ fsm.VolumeID) error {
		if effect == "cut" && full.Load() {
			return syscall.ENOSPC
		}
		return nil
	})
	a.start(nil)
	condition := func() string {
		p.mu.Lock()
		defer p.mu.Unlock()
		v, _ := p.state.Volume(id)
		return p.state.ReplicationCondition(v).Message
	}
	p.eventually("the condition says why it waits", func() bool {
		return strings.HasPrefix(condition(), "the replica on node n1 is outdated and waits: what it has cannot be kept: ") && strings.HasSuffix(condition(), ": no space left on device")
	})
	require.False(t, has(a.replicator.DiskContent(id), "first after the takeover"))
	require.True(t, has(a.replicator.DiskContent(id), "first acknowledged"))
	full.Store(false)
	p.waitUpToDate(id)
	require.True(t, p.keptMatchesLog(a))
	p.stopUsing(id, b)
	p.remove(id)
}

// S49: killed at each step of keeping a copy, a host leaves none that the log does not have.
func TestS49_ACrashWhileKeepingLeavesNoUnknownCopy(t *testing.T) {
	for _, point := range agent.ReplicaFaultPoints {
		if point < "keep-loser." || point > "keep-loser.~" {
			continue
		}
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			a, b := p.hosts[0], p.hosts[1]
			id := p.create(protocolC)
			p.failOver(id, a, b, "first")
			a.start(stopAt(point, 0))
			p.waitUpToDate(id)
			require.True(t, p.keptMatchesLog(a))
			require.Len(t, p.keptCopies(), 1, "one loss, one copy")
			p.stopUsing(id, b)
			p.remove(id)
			p.eventually("nothing is left", func() bool { return a.pool.Snapshots() == 0 && len(p.keptCopies()) == 0 })
		})
	}
}

// S49: copies that a host took before the log had records of them are reported when the level
// rises or a session begins, and are not removed.
func TestS49_KeptCopiesOfAnEarlierLevelAreReported(t *testing.T) {
	p := newStoppedPairAt(t, fsm.Level1)
	a, b := p.hosts[0], p.hosts[1]
	a.start(nil)
	b.start(nil)
	id := p.create(protocolC)
	p.failOver(id, a, b, "first")
	a.start(nil)
	p.waitUpToDate(id)
	require.Equal(t, 1, a.pool.Snapshots(), "S9: it is kept as ever")
	require.Empty(t, p.keptCopies())
	p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_SetFeatureLevel{SetFeatureLevel: &fsmpb.SetFeatureLevel{Level: fsm.Level2}}})
	a.connect()
	p.eventually("the log knows of it", func() bool { return len(p.keptCopies()) == 1 && p.keptMatchesLog(a) })
	require.False(t, p.keptCopies()[0].KeptCopy.Superseded.IsZero())
	p.stopUsing(id, b)
	p.remove(id)
	p.eventually("it goes with the volume", func() bool { return a.pool.Snapshots() == 0 && len(p.keptCopies()) == 0 })
}

// S49: a host lists the resources of its replicas and the mounts of the primary ones, so that an
// audit of replicated volumes finds no difference.
func TestS49_AnInventoryListsReplicas(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	kinds := func(m *member) (all []string) {
		found, err := m.e.Inventory(t.Context())
		require.NoError(t, err)
		for _, item := range found.Items {
			require.Equal(t, id, item.Volume)
			all = append(all, item.Kind)
		}
		slices.Sort(all)
		return all
	}
	require.Equal(t, []string{"image", "loop", "mount", "resource"}, kinds(a))
	require.Equal(t, []string{"image", "loop", "resource"}, kinds(b))
	p.stopUsing(id, a)
	require.Equal(t, []string{"image", "loop", "resource"}, kinds(a))
	p.remove(id)
	require.Empty(t, kinds(a))
}
