package controller_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

type publishReq = csi.ControllerPublishVolumeRequest

// One case per rule about the request; each twice.
func TestControllerPublishVolumeArguments(t *testing.T) {
	const invalid = codes.InvalidArgument
	for name, tc := range map[string]struct {
		change func(*publishReq)
		want   codes.Code
	}{
		"-03, -26: as it was made":                        {func(*publishReq) {}, codes.OK},
		"-04: a volume is required":                       {func(r *publishReq) { r.VolumeId = "" }, invalid},
		"-05: a node is required":                         {func(r *publishReq) { r.NodeId = "" }, invalid},
		"-06: a node id of 256 bytes is looked up":        {func(r *publishReq) { r.NodeId = strings.Repeat("n", 256) }, codes.NotFound},
		"GEN-Size-07: one of 257 is not":                  {func(r *publishReq) { r.NodeId = strings.Repeat("n", 257) }, invalid},
		"-07: a capability is required":                   {func(r *publishReq) { r.VolumeCapability = nil }, invalid},
		"VolumeCapability-01: an access type is required": {func(r *publishReq) { r.VolumeCapability.AccessType = nil }, invalid},
		"VolumeCapability-03: a mode is required":         {func(r *publishReq) { r.VolumeCapability.AccessMode = nil }, invalid},
		"VolumeCapability-12: a mode that is not served":  {func(r *publishReq) { r.VolumeCapability = mount(multiNodeMultiWriter, "") }, invalid},
		"-08: block on a volume for mounting":             {func(r *publishReq) { r.VolumeCapability = block(writer) }, codes.FailedPrecondition},
		"-08: a mode that it was not made for":            {func(r *publishReq) { r.VolumeCapability = mount(writer, "xfs") }, codes.FailedPrecondition},
		"-10: read-only":                                  {func(r *publishReq) { r.Readonly = true }, codes.OK},
		"-11: a context that is not the volume's":         {func(r *publishReq) { r.VolumeContext = mapOf("pool", "fast") }, invalid},
		"-11: Kubernetes' own keys are no part of it": {func(r *publishReq) {
			r.VolumeContext = mapOf("storage.kubernetes.io/csiProvisionerIdentity", "1-csi.holdfast.storage")
		}, codes.OK},
		"-15: an unknown volume, even to an unknown node":          {func(r *publishReq) { r.VolumeId, r.NodeId = unknownID, "n9" }, codes.NotFound},
		"-15: an id of another form is unknown":                    {func(r *publishReq) { r.VolumeId = "reallyfakevolumeid" }, codes.NotFound},
		"-16: an unknown node":                                     {func(r *publishReq) { r.NodeId = "n9" }, codes.NotFound},
		"-25: secrets are optional":                                {func(r *publishReq) { r.Secrets = mapOf("a", "b") }, codes.OK},
		"GEN-Error-12: the form is checked before the volume":      {func(r *publishReq) { r.VolumeId, r.VolumeCapability = unknownID, nil }, invalid},
		"GEN-Size-01: a volume id of 129 bytes":                    {func(r *publishReq) { r.VolumeId = strings.Repeat("v", 129) }, invalid},
		"GEN-Size-02: one of 128 is looked up":                     {func(r *publishReq) { r.VolumeId = strings.Repeat("v", 128) }, codes.NotFound},
		"-08: a volume that no replica of is on the node":          {func(r *publishReq) { r.NodeId = "n2" }, codes.FailedPrecondition},
		"-03: a filesystem left open is the volume's":              {func(r *publishReq) { r.VolumeCapability = mount(writer, "ext4") }, codes.OK},
		"VolumeCapability-09: reading only what may be written":    {func(r *publishReq) { r.VolumeCapability = mount(reader, "") }, codes.OK},
		"-09: read-only is advertised, so it is honoured":          {func(r *publishReq) { r.Readonly = true; r.VolumeCapability = mount(reader, "") }, codes.OK},
		"VolumeCapability-05: mount flags above 4 KiB":             {func(r *publishReq) { r.VolumeCapability = mount(writer, "", strings.Repeat("f", 4097)) }, invalid},
		"VolumeCapability-06: a mount group is a number":           {func(r *publishReq) { r.VolumeCapability.GetMount().VolumeMountGroup = "staff" }, invalid},
		"VolumeCapability-04: a filesystem that is not served":     {func(r *publishReq) { r.VolumeCapability = mount(writer, "btrfs") }, invalid},
		"GEN-Secrets-01: a key of secrets that is not well-formed": {func(r *publishReq) { r.Secrets = mapOf("ключ", "b") }, invalid},
	} {
		t.Run("CSI-CTRL-ControllerPublishVolume"+name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, hostIn("n1", "z1"), hostIn("n2", "z2"))
			id := w.create(t, "v", accessibleFrom([]*csi.Topology{topologyTerm(fsm.TopologyKey, "n1")}, nil))
			var first map[string]string
			for range 2 {
				resp, err := w.ControllerPublishVolume(t.Context(), publishRequest(id, "n1", tc.change))
				requireCode(t, tc.want, err)
				if first == nil {
					first = resp.GetPublishContext()
				}
				require.Equal(t, first, resp.GetPublishContext())
			}
		})
	}
}

// CSI-CTRL-ControllerPublishVolume-03, -12..14, -24: the same context each time, and
// nothing in it but the epoch (S3).
func TestS3_PublishContextIsTheEpoch(t *testing.T) {
	w := newEnv(t)
	id := w.create(t, "v")
	first := w.publish(t, id, mount(writer, ""))
	for range 10 {
		require.Equal(t, first, w.publish(t, id, mount(writer, "")))
	}
	require.Equal(t, []string{"holdfast.storage/epoch"}, keys(first))
	epoch, err := fsm.ParseEpoch(first[csiconv.EpochKey])
	require.NoError(t, err)
	require.False(t, epoch.IsZero())

	require.NoError(t, w.unpublish(t, id, "n1"))
	second, err := fsm.ParseEpoch(w.publish(t, id, mount(writer, ""))[csiconv.EpochKey])
	require.NoError(t, err)
	require.Positive(t, second.Compare(epoch), "S3: epochs only grow")
}

func keys(m map[string]string) (all []string) {
	for key := range maps.Keys(m) {
		all = append(all, key)
	}
	return all
}

// CSI-CTRL-ControllerPublishVolume-17..22, CSI-CTRL-VolumeCapability-08, -09, -14: what
// a second publication may be.
func TestControllerPublishVolumeTwice(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*publishReq)
		want   codes.Code
	}{
		"-17: another capability at the node":     {func(r *publishReq) { r.VolumeCapability = mount(reader, "") }, codes.AlreadyExists},
		"-17: block instead of mount":             {func(r *publishReq) { r.VolumeCapability = block(writer) }, codes.AlreadyExists},
		"-17: other mount flags":                  {func(r *publishReq) { r.VolumeCapability = mount(writer, "", "noatime") }, codes.AlreadyExists},
		"-18: the other readonly at the node":     {func(r *publishReq) { r.Readonly = true }, codes.AlreadyExists},
		"-19, VolumeCapability-08: another node":  {func(r *publishReq) { r.NodeId = "n2" }, codes.FailedPrecondition},
		"-19: another node to read":               {func(r *publishReq) { r.NodeId, r.Readonly = "n2", true }, codes.FailedPrecondition},
		"-22: a mode of many nodes is not served": {func(r *publishReq) { r.NodeId, r.VolumeCapability = "n2", mount(multiNodeReader, "") }, codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, hostIn("n1", "z1"), hostIn("n2", "z2"))
			id := w.create(t, "v", accessibleFrom([]*csi.Topology{topologyTerm(fsm.TopologyKey, "n1")}, nil))
			w.publish(t, id, mount(writer, ""))
			for range 2 {
				_, err := w.ControllerPublishVolume(t.Context(), publishRequest(id, "n1", tc.change))
				requireCode(t, tc.want, err)
				if tc.want == codes.FailedPrecondition { // -20: the message names the node
					require.Contains(t, status.Convert(err).Message(), "n1")
				}
			}
		})
	}
}

// CSI-CTRL-ControllerPublishVolume-21: a node's limit.
func TestControllerPublishVolumeLimit(t *testing.T) {
	w := newEnv(t, func(c *fakeCluster) *fakeHost {
		h := newHost(c, "n1")
		h.max = 2
		return h
	})
	var ids []string
	for i := range 3 {
		ids = append(ids, w.create(t, fmt.Sprintf("v%d", i)))
	}
	w.publish(t, ids[0], mount(writer, ""))
	w.publish(t, ids[1], mount(writer, ""))
	for range 2 {
		_, err := w.ControllerPublishVolume(t.Context(), publishRequest(ids[2], "n1"))
		requireCode(t, codes.ResourceExhausted, err)
	}
	require.NoError(t, w.unpublish(t, ids[0], "n1"))
	w.publish(t, ids[2], mount(writer, ""))
}

// TestControllerPublishVolumeInOtherPhases: what is not ready cannot be published.
func TestControllerPublishVolumeInOtherPhases(t *testing.T) {
	w := newEnv(t)
	w.host.update(func(h *fakeHost) { h.idle = true })
	_, err := w.cluster.apply("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: unknownID, Name: "v", Capabilities: []*fsmpb.Capability{{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, Block: true}}, Replicas: 1,
	}}})
	require.NoError(t, err)
	_, err = w.ControllerPublishVolume(t.Context(), publishRequest(unknownID, "n1"))
	requireCode(t, codes.Aborted, err)
	w.host.setReachable(t, false)
	require.NoError(t, w.delete(t, unknownID))
	_, err = w.ControllerPublishVolume(t.Context(), publishRequest(unknownID, "n1"))
	requireCode(t, codes.NotFound, err)
}

// TestControllerPublishVolumeToAnUnreachableHost: it cannot be used there now.
func TestControllerPublishVolumeToAnUnreachableHost(t *testing.T) {
	w := newEnv(t)
	id := w.create(t, "v")
	w.host.setReachable(t, false)
	_, err := w.ControllerPublishVolume(t.Context(), publishRequest(id, "n1"))
	requireCode(t, codes.Unavailable, err)
}

// CSI-CTRL-ControllerUnpublishVolume-03..07, -10, -13: each twice.
func TestControllerUnpublishVolume(t *testing.T) {
	for name, tc := range map[string]struct {
		volume, node string
		want         codes.Code
		published    bool // afterwards
	}{
		"-04: from the node":                    {"v", "n1", codes.OK, false},
		"-04, -06: from another, nothing ends":  {"v", "n2", codes.OK, true},
		"-05: without a node, from all":         {"v", "", codes.OK, false},
		"-07: from an unknown node":             {"v", "n9", codes.OK, true},
		"-07: an unknown volume":                {unknownID, "n1", codes.OK, true},
		"-07: an id of another form is unknown": {"fake-vol-id", "n1", codes.OK, true},
		"-03: a volume is required":             {"", "n1", codes.InvalidArgument, true},
		"GEN-Size-07: a node id of 257 bytes":   {"v", strings.Repeat("n", 257), codes.InvalidArgument, true},
	} {
		t.Run("CSI-CTRL-ControllerUnpublishVolume"+name, func(t *testing.T) {
			w := newEnv(t, hostIn("n1", "z1"), hostIn("n2", "z2"))
			id := w.create(t, "v", accessibleFrom([]*csi.Topology{topologyTerm(fsm.TopologyKey, "n1")}, nil))
			w.publish(t, id, mount(writer, ""))
			requested := tc.volume
			if requested == "v" {
				requested = id
			}
			for range 2 {
				_, err := w.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: requested, NodeId: tc.node, Secrets: mapOf("a", "b")})
				requireCode(t, tc.want, err)
			}
			got, err := w.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: id})
			require.NoError(t, err)
			require.Equal(t, tc.published, len(got.GetStatus().GetPublishedNodeIds()) == 1)
		})
	}
}

// What the other kind published is unpublished already: the call neither waits for its host nor enters the log, also where
// the host has it staged.
func TestUnpublishOfTheOtherKindsPublication(t *testing.T) {
	for maker, ender := range map[string]string{"operator/ann": "", "": "operator/ann", "admin/bob": ""} {
		synctest.Test(t, func(t *testing.T) {
			w := newEnv(t)
			id := w.create(t, "v")
			w.cluster.actor = maker
			context := w.publish(t, id, mount(writer, ""))
			_, err := w.node.NodeStageVolume(t.Context(), stageRequest(id, t.TempDir(), context, mount(writer, "")))
			require.NoError(t, err)
			before, started := w.cluster.proposedCount(), time.Now()
			w.cluster.actor = ender
			for range 2 {
				require.NoError(t, w.unpublish(t, id, "n1"))
				require.NoError(t, w.unpublish(t, id, ""))
			}
			require.Equal(t, before, w.cluster.proposedCount())
			require.Zero(t, time.Since(started), "nothing is waited for")
			w.cluster.actor = maker
			require.NoError(t, w.unpublish(t, id, "n1"))
			require.Greater(t, w.cluster.proposedCount(), before, "its own is ended")
		})
	}
}

// TestUnpublishNothingProposesNothing: what has no effect does not enter the log.
func TestUnpublishNothingProposesNothing(t *testing.T) {
	w := newEnv(t)
	id := w.create(t, "v")
	before := w.cluster.proposedCount()
	require.NoError(t, w.unpublish(t, id, "n1"))
	require.NoError(t, w.unpublish(t, unknownID, ""))
	require.Equal(t, before, w.cluster.proposedCount())
}

// TestS31_Unpublish: a volume that its reachable host reports staged is unpublished, and
// its host has a pending teardown, which ends within the call where it can; a report that
// is under way is waited for; on an unreachable host the teardown stays pending.
// CSI-CTRL-ControllerUnpublishVolume-12.
func TestS31_Unpublish(t *testing.T) {
	stagedWorld := func(t *testing.T) (*env, string, fsm.Epoch) {
		w := newEnv(t)
		id := w.create(t, "v")
		context := w.publish(t, id, mount(writer, ""))
		_, err := w.node.NodeStageVolume(t.Context(), stageRequest(id, t.TempDir(), context, mount(writer, "")))
		require.NoError(t, err)
		epoch, err := fsm.ParseEpoch(context[csiconv.EpochKey])
		require.NoError(t, err)
		return w, id, epoch
	}
	t.Run("staged and reachable: its host owes the end", func(t *testing.T) {
		for _, node := range []string{"n1", ""} {
			w, id, epoch := stagedWorld(t)
			for range 2 {
				require.NoError(t, w.unpublish(t, id, node))
			}
			_ = w.cluster.View(func(s *fsm.State) error {
				v, _ := s.Volume(fsm.VolumeID(id))
				require.Empty(t, v.Publications())
				require.Len(t, v.Teardowns, 1)
				require.Equal(t, epoch, v.Teardowns[0].Epoch)
				return nil
			})
			require.NotEmpty(t, w.publish(t, id, mount(writer, "")), "it is published again, and staged when the old mount ended (S3)")
		}
	})
	t.Run("a report on its way is waited for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, id, epoch := stagedWorld(t)
			done := make(chan error, 1)
			go func() {
				_, err := w.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: "n1"})
				done <- err
			}()
			synctest.Wait()
			require.Equal(t, 1, w.cluster.watcherCount())
			w.host.reportUnstaged(fsm.VolumeID(id), epoch)
			require.NoError(t, <-done)
		})
	})
	t.Run("unreachable: revoked, and the host owes the end", func(t *testing.T) {
		w, id, _ := stagedWorld(t)
		w.host.setReachable(t, false)
		require.NoError(t, w.unpublish(t, id, "n1"))
		require.NoError(t, w.unpublish(t, id, "n1"))
		_ = w.cluster.View(func(s *fsm.State) error {
			v, _ := s.Volume(fsm.VolumeID(id))
			require.Len(t, v.Teardowns, 1)
			require.Empty(t, v.Publications())
			return nil
		})
	})
}

// CSI-CTRL-DeleteVolume-02..04, -07, -08.
func TestDeleteVolume(t *testing.T) {
	w := newEnv(t)
	id := w.create(t, "v")
	for name, tc := range map[string]struct {
		id   string
		want codes.Code
	}{
		"-02: an id is required":                {"", codes.InvalidArgument},
		"-03: an unknown volume":                {unknownID, codes.OK},
		"-03: an id of any form":                {"reallyfakevolumeid", codes.OK},
		"-03: a path is no id":                  {"../../etc", codes.OK},
		"-03: a volume, and the same again":     {id, codes.OK},
		"GEN-Size-01: an id of 129 bytes":       {strings.Repeat("v", 129), codes.InvalidArgument},
		"GEN-Field: a control character in one": {"hf-\x00", codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				_, err := w.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: tc.id, Secrets: mapOf("a", "b")})
				requireCode(t, tc.want, err)
			}
		})
	}
	require.Empty(t, w.cluster.volumes())
}

// CSI-CTRL-DeleteVolume-07: what is published is not deleted, and not changed.
func TestDeleteVolumeInUse(t *testing.T) {
	w := newEnv(t)
	id := w.create(t, "v")
	w.publish(t, id, mount(writer, ""))
	for range 2 {
		requireCode(t, codes.FailedPrecondition, w.delete(t, id))
	}
	require.NoError(t, w.unpublish(t, id, ""))
	require.NoError(t, w.delete(t, id))
}

// TestS18_DeleteWithAHostAway: reachable hosts are waited for, on unreachable ones the
// removal stays pending; the name is free at once. CSI-CTRL-DeleteVolume-04, -09.
func TestS18_DeleteWithAHostAway(t *testing.T) {
	w := newEnv(t)
	id := w.create(t, "v")
	w.host.update(func(h *fakeHost) { h.idle = true })
	done := make(chan error, 1)
	go func() {
		_, err := w.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
		done <- err
	}()
	require.Eventually(t, func() bool { return w.cluster.watcherCount() == 1 }, time.Minute, time.Millisecond)
	w.host.setReachable(t, false)
	require.NoError(t, <-done, "the host keeps the obligation")
	require.Equal(t, []fsm.VolumeID{fsm.VolumeID(id)}, w.cluster.volumes(), "S105: nothing is forgotten")
	require.NoError(t, w.delete(t, id))
	list, err := w.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
	require.NoError(t, err)
	require.Empty(t, list.GetEntries())

	w.host.setReachable(t, true)
	w.host.update(func(h *fakeHost) { h.idle = false })
	require.NotEqual(t, id, w.create(t, "v"), "the name makes a new volume")
	require.Len(t, w.cluster.volumes(), 1)
}

// CSI-CTRL-DeleteVolume-09: a host that cannot remove the device is named.
func TestDeleteVolumeThatFails(t *testing.T) {
	w := newEnv(t)
	id := w.create(t, "v")
	w.host.update(func(h *fakeHost) {
		h.fail = &fsmpb.StepFailed{Step: "remove", Error: "device or resource busy", Final: true}
	})
	for range 2 {
		err := w.delete(t, id)
		requireCode(t, codes.Internal, err)
		require.Contains(t, status.Convert(err).Message(), "device or resource busy")
	}
	w.host.update(func(h *fakeHost) { h.fail = nil })
	require.NoError(t, w.delete(t, id))
}
