package agent_test

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// create makes a replicated volume, and waits for its initial sync.
func (p *pair) create(protocol fsmpb.Protocol) fsm.VolumeID {
	p.t.Helper()
	id := p.startCreate(protocol)
	p.eventually("the volume is ready", func() bool { return p.isReady(id) })
	return id
}

func (p *pair) startCreate(protocol fsmpb.Protocol) fsm.VolumeID {
	p.t.Helper()
	id := backendtest.NewID()
	p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: string(id), Name: "pvc-" + string(id), Fingerprint: []byte("parameters"), RequiredBytes: testSize,
		Capabilities: []*fsmpb.Capability{proto(mountCap), proto(blockCap)}, Replicas: 2, Protocol: protocol, Encrypted: p.encrypted,
	}}})
	return id
}

func (p *pair) isReady(id fsm.VolumeID) bool {
	v := p.volume(id)
	if v == nil {
		return false
	}
	_, ready := v.Phase.(fsm.Ready)
	return ready
}

// publish is ControllerPublishVolume: it waits until the host is primary.
func (m *member) publish(id fsm.VolumeID) fsm.Epoch {
	m.t.Helper()
	var epoch fsm.Epoch
	m.eventually("the volume is published to "+string(m.node), func() bool {
		out, err := m.try("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_PublishVolume{PublishVolume: &fsmpb.PublishVolume{
			VolumeId: string(id), NodeId: string(m.node), Capability: proto(mountCap),
		}}})
		epoch = fsm.Epoch{Incarnation: out.GetEpoch().GetIncarnation(), Index: out.GetEpoch().GetIndex()}
		return err == nil
	})
	m.eventually("the host "+string(m.node)+" is primary", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		v, _ := m.state.Volume(id)
		return m.state.PromotionDone(v, m.node)
	})
	return epoch
}

func (m *member) stage(id fsm.VolumeID, epoch fsm.Epoch) {
	m.t.Helper()
	m.retry("stage", func(ctx context.Context) error {
		return m.e.Stage(ctx, executor.StageRequest{Volume: id, Epoch: epoch, Path: stagingPath, Capability: mountCap, Keys: append(m.stageKeys, rightKeys...)})
	})
}

func (m *member) unstage(id fsm.VolumeID) {
	m.t.Helper()
	m.retry("unstage", func(ctx context.Context) error { return m.e.Unstage(ctx, id, stagingPath) })
}

// retry calls until there is no error; a host that died is started again.
func (m *member) retry(what string, call func(context.Context) error) {
	m.t.Helper()
	m.eventually(what, func() bool {
		ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Second)
		defer cancel()
		answer := make(chan error, 1)
		go func() { answer <- call(ctx) }()
		dead := make(<-chan struct{})
		if m.faults != nil {
			dead = m.faults.stopped
		}
		select {
		case err := <-answer:
			m.lastErr = err
			return err == nil
		case <-dead:
			return false
		}
	})
}

func (m *member) publication(id fsm.VolumeID) *fsm.Publication {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, _ := m.state.Volume(id)
	return v.Publication(m.node)
}

func (m *member) unpublish(id fsm.VolumeID) {
	m.t.Helper()
	m.eventually("the volume is unpublished from "+string(m.node), func() bool {
		_, err := m.try("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{
			VolumeId: string(id), NodeId: string(m.node),
		}}})
		return err == nil && m.publication(id) == nil // a reachable host takes it down first (S31)
	})
	m.eventually("the volume is severed", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.state.FormerPrimaryIsolated(id)
	})
}

// write writes until it is acknowledged.
func (m *member) write(id fsm.VolumeID, text string) {
	m.t.Helper()
	m.eventually("a write is acknowledged", func() bool {
		ok, _ := m.replicator.Write(id, text)
		return ok
	})
}

// waitUpToDate waits until both replicas are up to date in the log.
func (p *pair) waitUpToDate(id fsm.VolumeID) {
	p.t.Helper()
	p.eventually("both replicas are up to date", func() bool {
		active := p.volume(id).ActiveReplicas()
		return len(active) == 2 && active[0].UpToDate && active[1].UpToDate && len(p.volume(id).Teardowns) == 0
	})
	require.Equal(p.t, p.hosts[0].replicator.DiskContent(id), p.hosts[1].replicator.DiskContent(id))
}

// remove deletes the volume and checks that nothing is left.
func (p *pair) remove(id fsm.VolumeID) {
	p.t.Helper()
	_, err := p.try("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_DeleteVolume{DeleteVolume: &fsmpb.DeleteVolume{VolumeId: string(id)}}})
	require.NoError(p.t, err)
	p.eventually("the volume is gone", func() bool { return p.volume(id) == nil })
	for _, m := range p.hosts {
		known, err := m.replicator.ListResources(p.t.Context())
		require.NoError(p.t, err)
		require.Empty(p.t, known)
		p.eventually("nothing is left on "+string(m.node), func() bool {
			return m.pool.Images() == 0 && m.pool.ActiveDevices() == 0 && len((&testHost{dir: m.dir, testCluster: &testCluster{t: p.t}}).records()) == 0
		})
	}
	require.Zero(p.t, p.link.SplitBrains())
}

func has(content []string, text string) bool { return slices.Contains(content, text) }

// host is the member's host id in the log.
func (m *member) host() fsm.HostID {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, _ := m.state.Node(m.node)
	return n.Host
}

// registration is what the host registers with in a session: without what the cluster's level does not know.
func (m *member) registration() *fsmpb.RegisterNode {
	r := m.e.Register()
	fsm.Trim(r, m.state.Cluster().FeatureLevel)
	return r
}
