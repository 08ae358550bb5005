package controller_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// newReplicatedEnv is a world of two hosts that hold replicas, and one that holds none.
func newReplicatedEnv(t *testing.T) *env {
	return newEnv(t, replicatedHostIn("n1", "z1"), replicatedHostIn("n2", "z2"), hostIn("n3", "z3"))
}

func (w *env) hostOf(id fsm.NodeID) *fakeHost {
	for _, h := range w.cluster.hosts {
		if h.id == id {
			return h
		}
	}
	return nil
}

// stopHost: the host does nothing any more, and the log knows that it cannot be reached.
func (w *env) stopHost(t *testing.T, id fsm.NodeID) {
	t.Helper()
	w.hostOf(id).update(func(h *fakeHost) { h.idle = true })
	w.hostOf(id).setReachable(t, false)
}

func (w *env) publishTo(id, node string) error {
	_, err := w.ControllerPublishVolume(context.Background(), publishRequest(id, node))
	return err
}

func said(err error) string { return status.Convert(err).Message() }

func TestReplicatedVolumesAreMadeOnTwoHosts(t *testing.T) {
	for name, tc := range map[string]struct {
		pairs []string
		want  fsmpb.Protocol
	}{
		"the protocol is C": {[]string{"replicas", "2"}, fsmpb.Protocol_PROTOCOL_C},
		"as it is said":     {[]string{"replicas", "2", "protocol", "C"}, fsmpb.Protocol_PROTOCOL_C},
		"unless it is A":    {[]string{"replicas", "2", "protocol", "A"}, fsmpb.Protocol_PROTOCOL_A},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicatedEnv(t)
			var first *csi.Volume
			for range 2 {
				resp, err := w.CreateVolume(t.Context(), createRequest("v", withParameters(tc.pairs...)))
				require.NoError(t, err)
				if first == nil {
					first = resp.GetVolume()
				}
				require.Equal(t, first.GetVolumeId(), resp.GetVolume().GetVolumeId())
				var nodes []string
				for _, term := range resp.GetVolume().GetAccessibleTopology() {
					nodes = append(nodes, term.GetSegments()[fsm.TopologyKey])
				}
				require.ElementsMatch(t, []string{"n1", "n2"}, nodes, "CSI-CTRL-CreateVolume: both are listed")
			}
			_ = w.cluster.View(func(s *fsm.State) error {
				v, _ := s.Volume(fsm.VolumeID(first.GetVolumeId()))
				require.Equal(t, tc.want, v.Replication.Protocol)
				return nil
			})
			_, err := w.CreateVolume(t.Context(), createRequest("v", withParameters("replicas", "1")))
			requireCode(t, codes.AlreadyExists, err)
			require.NoError(t, w.delete(t, first.GetVolumeId()))
			require.NoError(t, w.delete(t, first.GetVolumeId()))
		})
	}
}

func TestGetCapacityForTwoReplicasIsWhatTwoHostsHold(t *testing.T) {
	w := newReplicatedEnv(t)
	w.create(t, "local", accessibleFrom([]*csi.Topology{topologyTerm(fsm.TopologyKey, "n1")}, nil))
	const pool = 1000 * gib
	for range 2 {
		resp, err := w.GetCapacity(t.Context(), &csi.GetCapacityRequest{Parameters: mapOf("replicas", "2")})
		require.NoError(t, err)
		require.Equal(t, pool-gib, resp.GetMaximumVolumeSize().GetValue(), "n3 has no DRBD")
		require.Equal(t, pool-gib, resp.GetAvailableCapacity())
		_, err = w.GetCapacity(t.Context(), &csi.GetCapacityRequest{Parameters: mapOf("replicas", "3")})
		requireCode(t, codes.InvalidArgument, err)
		require.Contains(t, said(err), "DRBD 8.4 holds two replicas")
	}
}

func TestValidateComparesReplicasAndProtocol(t *testing.T) {
	w := newReplicatedEnv(t)
	id := w.create(t, "v", withParameters("replicas", "2"))
	for name, tc := range map[string]struct {
		given map[string]string
		want  bool
	}{
		"as it was made":              {mapOf("replicas", "2"), true},
		"with the protocol":           {mapOf("replicas", "2", "protocol", "C"), true},
		"what is not given is open":   {mapOf("fsType", "ext4"), true},
		"another protocol":            {mapOf("replicas", "2", "protocol", "A"), false},
		"another number of replicas":  {mapOf("replicas", "1"), false},
		"a number that is not served": {mapOf("replicas", "3"), false},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				resp, err := w.ValidateVolumeCapabilities(t.Context(), &csi.ValidateVolumeCapabilitiesRequest{
					VolumeId: id, VolumeCapabilities: []*csi.VolumeCapability{mount(writer, "")}, Parameters: tc.given})
				require.NoError(t, err)
				require.Equal(t, tc.want, resp.GetConfirmed() != nil, resp.GetMessage())
			}
		})
	}
}

func TestAReplicatedVolumeGrowsOnBothHosts(t *testing.T) {
	w := newReplicatedEnv(t)
	id := w.create(t, "v", withParameters("replicas", "2"))
	for range 2 {
		resp, err := w.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{
			VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: 2 * gib}})
		require.NoError(t, err)
		require.Equal(t, 2*gib, resp.GetCapacityBytes())
	}
}

func TestS8_PublishAnswersWhenTheReplicaIsPrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReplicatedEnv(t)
		id := w.create(t, "v", withParameters("replicas", "2"))
		w.hostOf("n1").update(func(h *fakeHost) { h.delayed = true })
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			_, err := w.ControllerPublishVolume(ctx, publishRequest(id, "n1"))
			requireCode(t, codes.Aborted, err)
			require.Contains(t, said(err), "on node n1 is not primary yet")
			require.NoError(t, ctx.Err(), "the answer came before the deadline")
			cancel()
		}
		w.hostOf("n1").update(func(h *fakeHost) { h.delayed = false })
		first := w.publish(t, id, mount(writer, ""))
		require.True(t, w.hostOf("n1").replicas[fsm.VolumeID(id)].primary)
		require.Equal(t, first, w.publish(t, id, mount(writer, "")), "S3: the retry joins")

		err := w.publishTo(id, "n2")
		requireCode(t, codes.FailedPrecondition, err)
		require.Contains(t, said(err), "n1", "-18: it names where it is published")
		for range 2 {
			require.NoError(t, w.unpublish(t, id, "n1"))
		}
		err = w.publishTo(id, "n3")
		requireCode(t, codes.FailedPrecondition, err)
		require.Contains(t, said(err), "n3", "-08: a node without a replica")
		require.NoError(t, w.publishTo(id, "n2"), "it moves when the first host gave it up")
		require.True(t, w.hostOf("n2").replicas[fsm.VolumeID(id)].primary)
		require.False(t, w.hostOf("n1").replicas[fsm.VolumeID(id)].primary)
	})
}

func TestS8_UnpublishFromUnreachableHostWaitsForIsolation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReplicatedEnv(t)
		id := w.create(t, "v", withParameters("replicas", "2"))
		require.NoError(t, w.publishTo(id, "n1"))
		w.hostOf("n2").update(func(h *fakeHost) { h.idle = true }) // it does not hear of it yet
		w.stopHost(t, "n1")
		for range 2 { // the retry finds no publication, and waits all the same
			begun := time.Now()
			err := w.unpublish(t, id, "n1")
			requireCode(t, codes.Unavailable, err)
			require.Contains(t, said(err), "the publication is revoked")
			require.Less(t, time.Since(begun), 5*time.Second)
		}
		_ = w.cluster.View(func(s *fsm.State) error {
			v, _ := s.Volume(fsm.VolumeID(id))
			require.Empty(t, v.Publications(), "step 1")
			require.NotNil(t, v.Teardown("host-n1"))
			return nil
		})
		w.hostOf("n2").update(func(h *fakeHost) { h.idle = false })
		w.cluster.reconcileHosts()
		for range 2 {
			require.NoError(t, w.unpublish(t, id, "n1"), "step 2: the other is disconnected and up to date")
		}
		require.NoError(t, w.publishTo(id, "n2"), "steps 3 and 4")
		require.NoError(t, w.unpublish(t, id, "n1"), "it lost")
		requireCode(t, codes.FailedPrecondition, w.publishTo(id, "n1"))

		w.hostOf("n1").update(func(h *fakeHost) { h.idle = false })
		w.hostOf("n1").setReachable(t, true)
		w.cluster.reconcileHosts()
		require.NoError(t, w.unpublish(t, id, "n1"), "a host that can be asked ends it by itself")
	})
}

func TestS8_UnpublishFromAllNodesWaitsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReplicatedEnv(t)
		id := w.create(t, "v", withParameters("replicas", "2"))
		require.NoError(t, w.publishTo(id, "n1"))
		w.hostOf("n2").update(func(h *fakeHost) { h.idle = true })
		w.stopHost(t, "n1")
		requireCode(t, codes.Unavailable, w.unpublish(t, id, ""))
		w.hostOf("n2").update(func(h *fakeHost) { h.idle = false })
		w.cluster.reconcileHosts()
		require.NoError(t, w.unpublish(t, id, ""))
	})
}

func TestS11_ProtocolAIsNotTakenOver(t *testing.T) {
	w := newReplicatedEnv(t)
	id := w.create(t, "v", withParameters("replicas", "2", "protocol", "A"))
	require.NoError(t, w.publishTo(id, "n1"))
	w.stopHost(t, "n1")
	for range 2 {
		requireCode(t, codes.Unavailable, w.unpublish(t, id, "n1"))
		_ = w.cluster.View(func(s *fsm.State) error {
			v, _ := s.Volume(fsm.VolumeID(id))
			require.Len(t, v.Publications(), 1, "nothing changed")
			return nil
		})
	}
}

func TestS31_AReplicatedVolumeThatIsStagedStaysPublished(t *testing.T) {
	w := newReplicatedEnv(t)
	id := w.create(t, "v", withParameters("replicas", "2"))
	epoch := w.publish(t, id, mount(writer, ""))
	staged, err := w.node.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: t.TempDir(), VolumeCapability: mount(writer, ""), PublishContext: epoch})
	require.NoError(t, err, staged)
	for range 2 {
		err := w.unpublish(t, id, "n1")
		requireCode(t, codes.FailedPrecondition, err)
		require.Contains(t, said(err), "n1")
	}
	require.NoError(t, w.publishTo(id, "n1"))
}

func TestUnreachableReplicaIsACondition(t *testing.T) {
	w := newReplicatedEnv(t)
	id := w.create(t, "v", withParameters("replicas", "2"))
	get := func() *csi.ControllerGetVolumeResponse {
		resp, err := w.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: id})
		require.NoError(t, err)
		return resp
	}
	require.False(t, get().GetStatus().GetVolumeCondition().GetAbnormal(), get())
	require.NoError(t, w.publishTo(id, "n1"))
	w.stopHost(t, "n2")
	w.cluster.reconcileHosts()
	for range 2 {
		condition := get().GetStatus().GetVolumeCondition()
		require.True(t, condition.GetAbnormal())
		require.Contains(t, condition.GetMessage(), "n2")
		require.Equal(t, []string{"n1"}, get().GetStatus().GetPublishedNodeIds())
		list, err := w.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
		require.NoError(t, err)
		require.Equal(t, condition.GetMessage(), list.GetEntries()[0].GetStatus().GetVolumeCondition().GetMessage())
		require.Len(t, list.GetEntries()[0].GetVolume().GetAccessibleTopology(), 2)
	}
}
