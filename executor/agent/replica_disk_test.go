package agent_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

var errUnreadable = errors.New("input/output error")

// stop ends the node process; its kernel keeps running.
func (m *member) stop() {
	m.t.Helper()
	m.mu.Lock()
	m.connected = false
	m.setReachable(false)
	m.mu.Unlock()
	require.NoError(m.t, m.e.Shutdown(m.t.Context()))
}

// holdsAll checks that the host's own disk has everything, not only its peer's.
func (m *member) holdsAll(id fsm.VolumeID, texts ...string) {
	m.t.Helper()
	for _, text := range texts {
		require.True(m.t, has(m.replicator.DiskContent(id), text), "%s on %s", text, m.node)
	}
}

// S67: a disk that the kernel detached after an error is fully resynchronised, on the primary and
// on its peer; the bitmaps do not name what it lost.
func TestS67_AFailedDiskIsResyncedInFull(t *testing.T) {
	for i, name := range []string{"under the primary", "under the secondary"} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			a, broken := p.hosts[0], p.hosts[i]
			id := p.create(protocolC)
			a.stage(id, a.publish(id))
			a.write(id, "acknowledged")
			attachment := p.volume(id).ActiveReplica(broken.host()).Attachment
			broken.replicator.FailDisk(id)
			a.write(id, "meanwhile")
			p.eventually("it is attached again", func() bool { return p.volume(id).ActiveReplica(broken.host()).Attachment > attachment })
			p.waitUpToDate(id)
			broken.holdsAll(id, "acknowledged", "meanwhile")
			require.Equal(t, 1, broken.replicator.Steps("remake-metadata"))
			p.eventually("the log takes it for whole", func() bool { return p.volume(id).ActiveReplica(broken.host()).DiskFailed == 0 })
			a.unstage(id)
			a.unpublish(id)
			p.remove(id)
		})
	}
}

// S67: the host's record survives a loss of power. The process had seen the failure, and had not
// acted on it.
func TestS67_AFailedDiskIsRecordedAcrossALossOfPower(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "acknowledged")
	a.mounter.setFail(nil)
	b.mounter.setFail(func(effect, _ string) error { // the pool below stays unreadable
		if effect == "probe" {
			return errUnreadable
		}
		return nil
	})
	b.replicator.FailDisk(id)
	a.write(id, "meanwhile")
	p.eventually("the host has seen it", func() bool {
		return b.mounter.count("probe") > 0 || p.volume(id).ActiveReplica(b.host()).DiskFailed != 0
	})
	b.crash()
	b.mounter.setFail(nil)
	b.start(nil)
	p.waitUpToDate(id)
	b.holdsAll(id, "acknowledged", "meanwhile")
	require.Equal(t, 1, b.replicator.Steps("remake-metadata"))
}

// S67: the host loses its power before its process saw the failure; its peer saw it.
func TestS67_AFailedDiskIsRecordedByThePeersReport(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "acknowledged")
	b.stop()
	b.replicator.FailDisk(id)
	p.eventually("the peer said so", func() bool { return p.volume(id).ActiveReplica(b.host()).DiskFailed != 0 })
	b.crash()
	a.write(id, "meanwhile")
	b.start(nil)
	p.waitUpToDate(id)
	b.holdsAll(id, "acknowledged", "meanwhile")
	require.Equal(t, 1, b.replicator.Steps("remake-metadata"))
	require.Zero(t, p.volume(id).ActiveReplica(b.host()).DiskFailed)
}

// S67: both hosts lose power after the secondary's disk failed. The primary's disk is the good one,
// and is waited for; neither an operator nor another loss is needed.
func TestS67_BothLosePowerAfterADiskFailed(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	epoch := a.publish(id)
	a.stage(id, epoch)
	a.write(id, "acknowledged")
	b.mounter.setFail(func(effect, _ string) error {
		if effect == "probe" {
			return errUnreadable
		}
		return nil
	})
	b.replicator.FailDisk(id)
	a.write(id, "meanwhile")
	p.eventually("the host has seen it", func() bool {
		return p.volume(id).ActiveReplica(b.host()).Observed.Disk == fsmpb.DiskState_DISK_STATE_DISKLESS
	})
	a.crash()
	b.crash()
	b.mounter.setFail(nil)
	b.start(nil)
	require.Zero(t, b.replicator.Steps("remake-metadata"), "not before its peer is there")
	a.start(nil)
	p.waitUpToDate(id)
	for _, m := range p.hosts {
		m.holdsAll(id, "acknowledged", "meanwhile")
	}
	require.Zero(t, a.replicator.Steps("remake-metadata"))
}

// S67: both disks fail. Either may be the only good copy: neither is discarded, and no host
// continues before an operator decided.
func TestS67_TheOnlyGoodCopyIsNeverDiscarded(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "first")
	a.write(id, "second")
	unreadable := func(effect, _ string) error {
		if effect == "probe" {
			return errUnreadable
		}
		return nil
	}
	a.mounter.setFail(unreadable)
	b.mounter.setFail(unreadable)
	a.replicator.FailDisk(id)
	p.eventually("the first failure is known", func() bool { return p.volume(id).ActiveReplica(a.host()).DiskFailed != 0 })
	b.replicator.FailDisk(id)
	p.eventually("and the second", func() bool { return p.volume(id).ActiveReplica(b.host()).DiskFailed != 0 })
	_, err := a.replicator.Write(id, "nowhere")
	require.Error(t, err)
	a.mounter.setFail(nil)
	b.mounter.setFail(nil)
	a.crash()
	b.crash()
	b.start(nil)
	a.start(nil)
	a.unpublish(id)
	for _, m := range p.hosts {
		require.Zero(t, m.replicator.Steps("remake-metadata"))
	}
	p.must("admin/a", &fsmpb.Command{Body: &fsmpb.Command_ForcePrimary{ForcePrimary: &fsmpb.ForcePrimary{
		VolumeId: string(id), NodeId: "n2", Reason: "both disks failed", PeerDead: true,
	}}})
	b.stage(id, b.publish(id))
	b.holdsAll(id, "second")
	require.Zero(t, b.replicator.Steps("remake-metadata"))
	p.waitUpToDate(id)
	require.Equal(t, 1, a.replicator.Steps("remake-metadata"), "that one is copied from the one that was chosen")
	a.holdsAll(id, "second")
	b.crash() // what was decided is not asked for again
	b.start(nil)
	p.waitUpToDate(id)
	require.Zero(t, b.replicator.Steps("remake-metadata"))
}

// S67: the log calls the peer up to date, but it cannot be reached: it may have been destroyed, and
// the failed disk be the only copy left. Nothing of that is discarded before the peer is back.
func TestS67_NothingIsDiscardedForAnUnreachablePeer(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "acknowledged")
	b.stop()
	b.replicator.FailDisk(id)
	p.eventually("the peer said so", func() bool { return p.volume(id).ActiveReplica(b.host()).DiskFailed != 0 })
	b.crash()
	a.disconnect()
	require.True(t, p.volume(id).ActiveReplica(a.host()).UpToDate, "by the log's word")
	b.start(nil)
	p.eventually("the host looked at it", func() bool {
		obs := p.volume(id).ActiveReplica(b.host()).Observed
		return obs.Boot == b.e.Host.BootID && obs.Unconfigured
	})
	require.Zero(t, b.replicator.Steps("remake-metadata"))
	a.connect()
	p.waitUpToDate(id)
	require.Equal(t, 1, b.replicator.Steps("remake-metadata"))
	b.holdsAll(id, "acknowledged")
}

// S67: the peer's disk fails while the backing device is probed, which may take long. What was to
// be resynchronised from it is then the only copy, and is not discarded.
func TestS67_APeerThatFailsDuringTheProbeStopsTheRemake(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "acknowledged")
	b.mounter.setFail(func(effect, _ string) error {
		if effect == "probe" {
			return errUnreadable
		}
		return nil
	})
	read := make(chan struct{})
	var once sync.Once
	a.mounter.setFail(func(effect, _ string) error {
		if effect == "probe" {
			once.Do(func() {
				b.replicator.FailDisk(id)
				p.eventually("the log knows", func() bool { return p.volume(id).ActiveReplica(b.host()).DiskFailed != 0 })
				close(read)
			})
		}
		return nil
	})
	a.replicator.FailDisk(id)
	<-read
	a.stop()
	require.Zero(t, a.replicator.Steps("remake-metadata"))
}

// S67: the disk that failed has the only copy of acknowledged writes: its peer was outdated without
// them, although the peer's kernel calls its disk UpToDate. The failed disk is kept for an operator.
func TestS67_AFailedDiskIsNotCopiedFromAnOutdatedPeer(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "acknowledged")
	a.write(id, "acknowledged as well")
	p.link.SetDisconnected(true)
	a.write(id, "alone")
	a.unstage(id)
	a.unpublish(id)
	require.True(t, p.volume(id).ActiveReplica(b.host()).Outdated)
	a.replicator.FailDisk(id)
	p.link.SetDisconnected(false)
	waits := func() bool {
		require.Zero(t, a.replicator.Steps("remake-metadata"))
		own := p.volume(id).ActiveReplica(a.host())
		return own.DiskFailed != 0 && own.Observed.Disk == fsmpb.DiskState_DISK_STATE_DISKLESS && !own.Observed.Connected()
	}
	p.eventually("it waits for a decision", waits)
	for range 2 {
		a.stop()
		a.start(nil)
		p.eventually("and still does", waits)
	}
	a.holdsAll(id, "alone")
	p.must("admin/a", &fsmpb.Command{Body: &fsmpb.Command_ForcePrimary{ForcePrimary: &fsmpb.ForcePrimary{
		VolumeId: string(id), NodeId: "n1", Reason: "the peer is outdated", PeerDead: true,
	}}})
	a.stage(id, a.publish(id))
	p.eventually("its peer has it", func() bool { return p.volume(id).ActiveReplica(b.host()).UpToDate })
	b.holdsAll(id, "alone")
}

// S67: a failed disk lacks blocks that no bitmap names, and was chosen as it is: its peer has those
// blocks still, and is copied completely, also where the chosen host asks again or boots meanwhile.
func TestS67_ThePeerOfAForcedFailedDiskIsCopiedInFull(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(a *member) // the decision is carried out
		after  func(a *member) // and before the peer is back
	}{
		"at once":                         {},
		"the host boots before its grant": {before: func(a *member) { a.crash(); a.start(nil) }},
		"and after it":                    {after: func(a *member) { a.crash(); a.start(nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			a, b := p.hosts[0], p.hosts[1]
			id := p.failedAndForced()
			if tc.before != nil {
				tc.before(a)
			}
			a.stage(id, a.publish(id))
			a.write(id, "by the decision")
			if tc.after != nil {
				tc.after(a)
				a.stage(id, a.publish(id))
			}
			b.start(nil)
			p.waitUpToDate(id)
			require.ElementsMatch(t, a.replicator.DiskContent(id), b.replicator.DiskContent(id))
			require.Equal(t, 1, b.replicator.Steps("remake-metadata"))
			require.Zero(t, a.replicator.Steps("remake-metadata"))
			p.eventually("the failure is over", func() bool { return p.volume(id).ActiveReplica(b.host()).DiskFailed == 0 })
		})
	}
}

// S67: it was decided to use a failed disk as it is, and its peer came back before anybody did. Nothing
// was written by the decision: the failed disk is copied completely, as without it.
func TestS67_APeerThatReturnsBeforeAForcedGrantIsCopiedFromInFull(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.failedAndForced()
	p.eventually("the failed disk is attached as it is", func() bool {
		return p.volume(id).ActiveReplica(a.host()).Observed.Disk > fsmpb.DiskState_DISK_STATE_FAILED
	})
	b.start(nil)
	p.waitUpToDate(id)
	a.stage(id, a.publish(id))
	a.write(id, "afterwards")
	p.waitUpToDate(id)
	a.holdsAll(id, "lost", "acknowledged", "afterwards")
	b.holdsAll(id, "lost", "acknowledged", "afterwards")
}

// failedAndForced is a volume whose disk failed on the first host, which lost a block by that. The other
// host has lost its power, and it was decided that the first goes on.
func (p *pair) failedAndForced() fsm.VolumeID {
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "lost")
	a.write(id, "acknowledged")
	p.waitUpToDate(id)
	a.mounter.setFail(func(effect, _ string) error {
		if effect == "probe" {
			return errUnreadable
		}
		return nil
	})
	a.replicator.FailDisk(id)
	p.eventually("the failure is known", func() bool { return p.volume(id).ActiveReplica(a.host()).DiskFailed != 0 })
	a.unstage(id)
	a.unpublish(id)
	b.crash()
	a.mounter.setFail(nil)
	p.must("admin/a", &fsmpb.Command{Body: &fsmpb.Command_ForcePrimary{ForcePrimary: &fsmpb.ForcePrimary{
		VolumeId: string(id), NodeId: "n1", Reason: "the peer burnt", PeerDead: true,
	}}})
	return id
}
