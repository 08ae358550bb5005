package agent_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// useDuring has the other host begin to use the volume while this one's pool does something for
// the first time: that effect calls use, and waits for it.
func (m *member) useDuring(effect string, id fsm.VolumeID, by *member) (use func()) {
	var once sync.Once
	begun, used := make(chan struct{}), make(chan struct{})
	m.pool.SetFullCopies(true)
	m.pool.SetFail(func(what string, _ fsm.VolumeID) error {
		if what == effect {
			once.Do(func() {
				close(begun)
				<-used
			})
		}
		return nil
	})
	return func() {
		defer close(used)
		select {
		case <-begun:
		case <-time.After(pairTimeout):
			require.Fail(m.t, "the pool does nothing", effect)
		}
		by.publish(id)
		by.stage(id, by.publication(id).Epoch)
		by.write(id, "written while it was copied")
	}
}

// formatOnce uses the volume once: while it is copied it is given no filesystem (S15).
func (m *member) formatOnce(id fsm.VolumeID) {
	m.stage(id, m.publish(id))
	m.unstage(id)
	m.unpublish(id)
}

// S19: what a pool copies of a replica while the other replica's host begins to use the volume is
// torn: it is never reported, and the next snapshot is taken where the volume is used.
func TestS19_ASnapshotCopiedWhileThePeerWritesIsDiscarded(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	b.formatOnce(id)
	use := a.useDuring("cut", id, b)
	torn := p.createSnapshot(id, "torn")
	use()
	p.eventually("the cut is given up", func() bool { return p.snapshotHost(torn) == "" && a.pool.Snapshots() == 0 })
	require.Zero(t, b.freezer.freezes)
	next := p.createSnapshot(id, "next")
	p.eventually("the next is cut", func() bool { return p.snapshotHost(next) == b.host() })
	require.Equal(t, 1, b.freezer.freezes)
	_, exists := a.pool.SnapshotContent(torn)
	require.False(t, exists)
}

// S19: the same for a clone.
func TestS19_ACloneCopiedWhileThePeerWritesIsDiscarded(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	b.formatOnce(id)
	use := a.useDuring("create-from", id, b)
	torn := p.clone(id)
	use()
	p.eventually("the clone is given up", func() bool { return p.volume(torn) == nil && a.pool.Images() == 1 })
	next := p.clone(id)
	p.eventually("the next is made", func() bool { return p.isReady(next) })
	require.Equal(t, fsm.NodeID("n2"), p.volume(next).Replicas[0].Node)
	require.Equal(t, 1, b.freezer.freezes)
}

func (p *pair) clone(id fsm.VolumeID) fsm.VolumeID {
	clone := backendtest.NewID()
	p.hosts[1].mounter.copyContent(id, clone)
	p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: string(clone), Name: "clone", RequiredBytes: testSize, Capabilities: []*fsmpb.Capability{proto(mountCap)},
		Source: &fsmpb.Source{VolumeId: string(id)}, Replicas: 2,
	}}})
	return clone
}

func (p *pair) createSnapshot(id fsm.VolumeID, name string) fsm.SnapshotID {
	taken := backendtest.NewSnapshotID()
	p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateSnapshot{CreateSnapshot: &fsmpb.CreateSnapshot{
		SnapshotId: string(taken), Name: name, SourceVolumeId: string(id),
	}}})
	return taken
}

// snapshotHost is the host that has the snapshot; empty when none that is, or may be, Ready has it.
func (p *pair) snapshotHost(taken fsm.SnapshotID) fsm.HostID {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.state.Snapshot(taken)
	if !ok {
		return ""
	}
	if n.Phase != fsm.SnapshotReady {
		return "being cut"
	}
	return n.Host
}
