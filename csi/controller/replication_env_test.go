package controller_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	spec "github.com/csi-addons/spec/lib/go/replication"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// replicatedHostAt makes a host at a site that holds replicas.
func replicatedHostAt(id fsm.NodeID, site string) func(*fakeCluster) *fakeHost {
	return func(c *fakeCluster) *fakeHost {
		h := newHost(c, id)
		h.site, h.address = site, "192.0.2."+string(id[1:])
		return h
	}
}

// newSites has the sites A with the host n1 and B with the host n2, and acts for A.
func newSites(t testing.TB) *env {
	t.Helper()
	w := newEnv(t, replicatedHostAt("n1", "A"), replicatedHostAt("n2", "B"))
	w.cluster.actAs(t, "A")
	return w
}

// ReplicaNow is what a host that runs observes of its replica.
func (c *fakeCluster) ReplicaNow(ctx context.Context, node fsm.NodeID, id fsm.VolumeID) (seen fsm.ReplicaObservation, err error) {
	h := c.runningHost(node)
	if h == nil {
		<-ctx.Done()
		return seen, ctx.Err()
	}
	var desired fsm.DesiredVolume
	known := false
	_ = c.View(func(s *fsm.State) error {
		desired, known = s.DesiredVolume(node, id)
		return nil
	})
	if !known || desired.Replication == nil {
		return seen, errors.New("it has no replica")
	}
	seen = h.observe(&desired, h.replica(&desired))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changeReplicaNow != nil {
		c.changeReplicaNow(&seen)
	}
	return seen, nil
}

// between is what makes a volume with a replica at each of the two sites.
func between(r *csi.CreateVolumeRequest) { r.Parameters = mapOf("sites", "A,B") }

// setAway has a host stop, and be recorded as unreachable, or come back.
func (w *env) setAway(t testing.TB, id fsm.NodeID, away bool) {
	t.Helper()
	w.hostOf(id).update(func(h *fakeHost) { h.idle = away })
	w.hostOf(id).setReachable(t, !away)
	w.cluster.reconcileHosts()
}

// soon is the context of a call whose caller waits for a moment only.
func (w *env) soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}

// recorded is what the state has of a volume.
func (w *env) recorded(id string) (v fsm.Volume) {
	_ = w.cluster.View(func(s *fsm.State) error {
		if known, ok := s.Volume(fsm.VolumeID(id)); ok {
			v = *known
		}
		return nil
	})
	return v
}

func ofVolume(id string) *spec.ReplicationSource {
	return &spec.ReplicationSource{Type: &spec.ReplicationSource_Volume{Volume: &spec.ReplicationSource_VolumeSource{VolumeId: id}}}
}

func ofGroup(id string) *spec.ReplicationSource {
	return &spec.ReplicationSource{Type: &spec.ReplicationSource_Volumegroup{Volumegroup: &spec.ReplicationSource_VolumeGroupSource{VolumeGroupId: id}}}
}

func (w *env) enable(t testing.TB, source *spec.ReplicationSource, parameters ...string) error {
	t.Helper()
	peer := map[string]string{"A": "B", "B": "A"}[w.cluster.Site()]
	given := mapOf(append([]string{"peerSite", peer, "schedulingInterval", "1m"}, parameters...)...)
	_, err := w.roles.EnableVolumeReplication(w.soon(t), &spec.EnableVolumeReplicationRequest{ReplicationSource: source, Parameters: given})
	return err
}

func (w *env) disable(t testing.TB, source *spec.ReplicationSource) error {
	t.Helper()
	_, err := w.roles.DisableVolumeReplication(w.soon(t), &spec.DisableVolumeReplicationRequest{ReplicationSource: source})
	return err
}

func (w *env) promote(t testing.TB, source *spec.ReplicationSource, force bool) error {
	t.Helper()
	_, err := w.roles.PromoteVolume(w.soon(t), &spec.PromoteVolumeRequest{ReplicationSource: source, Force: force})
	return err
}

func (w *env) demote(t testing.TB, source *spec.ReplicationSource) error {
	t.Helper()
	_, err := w.roles.DemoteVolume(w.soon(t), &spec.DemoteVolumeRequest{ReplicationSource: source})
	return err
}

func (w *env) resync(t testing.TB, source *spec.ReplicationSource, force bool, parameters ...string) (bool, error) {
	t.Helper()
	resp, err := w.roles.ResyncVolume(w.soon(t), &spec.ResyncVolumeRequest{ReplicationSource: source, Force: force, Parameters: mapOf(parameters...)})
	return resp.GetReady(), err
}

func (w *env) info(t testing.TB, source *spec.ReplicationSource) (*spec.GetVolumeReplicationInfoResponse, error) {
	t.Helper()
	return w.roles.GetVolumeReplicationInfo(w.soon(t), &spec.GetVolumeReplicationInfoRequest{ReplicationSource: source})
}

// replicated makes a volume that is replicated between the two sites, with A as its primary.
func (w *env) replicated(t testing.TB, name string) string {
	t.Helper()
	id := w.create(t, name, between)
	require.NoError(t, w.enable(t, ofVolume(id)))
	return id
}
