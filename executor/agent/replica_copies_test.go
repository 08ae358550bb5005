package agent_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func TestAReplicatedVolumeIsSnapshottedClonedAndExpanded(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	taken := backendtest.NewSnapshotID()
	p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateSnapshot{CreateSnapshot: &fsmpb.CreateSnapshot{
		SnapshotId: string(taken), Name: "snap", SourceVolumeId: string(id),
	}}})
	p.eventually("the snapshot is cut", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		n, ok := p.state.Snapshot(taken)
		return ok && n.Phase == fsm.SnapshotReady && n.Size == testSize
	})
	require.Equal(t, 1, a.freezer.freezes, "S19: what is mounted is frozen for it")
	clone := backendtest.NewID()
	a.mounter.copyContent(id, clone)
	p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: string(clone), Name: "clone", RequiredBytes: testSize, Capabilities: []*fsmpb.Capability{proto(mountCap)},
		Source: &fsmpb.Source{SnapshotId: string(taken)}, Replicas: 2,
	}}})
	p.eventually("the clone is ready", func() bool { return p.isReady(clone) })
	require.Equal(t, 1, a.replicator.Steps("wipe-metadata"), "the source's metadata are not its own")
	require.Positive(t, b.replicator.Steps("invalidate"), "the copy is copied to the other host")
	require.Zero(t, a.replicator.Steps("invalidate"))

	p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_ExpandVolume{ExpandVolume: &fsmpb.ExpandVolume{VolumeId: string(id), RequiredBytes: 2 * testSize}}})
	p.eventually("the volume is grown", func() bool { v := p.volume(id); return v.Operation == nil && v.Size == 2*testSize })
	for _, m := range p.hosts {
		below, err := m.pool.Observe(context.Background(), id)
		require.NoError(t, err)
		require.Equal(t, m.replicator.BackingSize(2*testSize), below.Size)
	}
}

func TestCleanTakesReplicasDownAndKeepsTheirDevices(t *testing.T) {
	p := newPair(t)
	a := p.hosts[0]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.mu.Lock()
	a.connected = false
	a.mu.Unlock()
	require.NoError(t, a.e.Shutdown(t.Context()))
	primary, _ := a.replicator.Primary(id)
	require.True(t, primary, "what is staged stays when the process stops")
	for range 2 {
		require.NoError(t, a.e.Clean(t.Context()))
		primary, _ = a.replicator.Primary(id)
		require.False(t, primary)
		require.Zero(t, a.pool.ActiveDevices())
		require.Equal(t, 1, a.pool.Images())
	}
}

func TestAReplicaIsRemovedAndAnotherIsAdded(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	for i := range 2 {
		text := "while there is one " + string(rune('0'+i))
		p.eventually("the replica is given up", func() bool { // refused until both were connected since the last grant
			_, err := p.try("admin/a", &fsmpb.Command{Body: &fsmpb.Command_RemoveReplica{RemoveReplica: &fsmpb.RemoveReplica{
				VolumeId: string(id), NodeId: "n2", HostId: string(b.host()), Reason: "test",
			}}})
			return err == nil
		})
		p.eventually("the replica is gone", func() bool { return len(p.volume(id).Replicas) == 1 && b.pool.Images() == 0 })
		a.write(id, text)
		p.must("admin/a", &fsmpb.Command{Body: &fsmpb.Command_AddReplica{AddReplica: &fsmpb.AddReplica{VolumeId: string(id), NodeId: "n2", Reason: "test"}}})
		p.waitUpToDate(id)
		require.True(t, has(b.replicator.DiskContent(id), text))
	}
	a.unstage(id)
	a.unpublish(id)
	p.remove(id)
}
