package conformance

import (
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// listCall is one of the lists, by ids.
type listCall func(c csi.ControllerClient, most int32, token string) (ids []string, next string, err error)

func (k *fixture) volumeListing(c csi.ControllerClient, most int32, token string) (ids []string, next string, err error) {
	res, err := c.ListVolumes(k.ctx, &csi.ListVolumesRequest{MaxEntries: most, StartingToken: token})
	for _, e := range res.GetEntries() {
		require.NotNil(k.t, e.GetVolume())
		ids = append(ids, e.GetVolume().GetVolumeId())
	}
	return ids, res.GetNextToken(), err
}

func (k *fixture) snapshotListing(c csi.ControllerClient, most int32, token string) (ids []string, next string, err error) {
	res, err := c.ListSnapshots(k.ctx, &csi.ListSnapshotsRequest{MaxEntries: most, StartingToken: token})
	for _, e := range res.GetEntries() {
		require.NotNil(k.t, e.GetSnapshot())
		ids = append(ids, e.GetSnapshot().GetSnapshotId())
	}
	return ids, res.GetNextToken(), err
}

// allPages reads all pages; none is longer than allowed, and a token is present if and only if more
// follows.
func (k *fixture) allPages(list listCall, most int32) []string {
	k.t.Helper()
	var all []string
	for token, pages := "", 0; ; pages++ {
		require.Less(k.t, pages, 1000)
		ids, next, err := list(k.controller, most, token)
		require.NoError(k.t, err)
		require.LessOrEqual(k.t, len(ids), int(most))
		require.LessOrEqual(k.t, len(next), 128)
		all = append(all, ids...)
		if next == "" {
			break
		}
		require.Len(k.t, ids, int(most))
		token = next
	}
	sorted := slices.Sorted(slices.Values(all))
	require.Equal(k.t, sorted, slices.Compact(slices.Clone(sorted)), "an entry is told twice")
	return all
}

// requirePagesComplete: pages of all lengths add up to the whole list.
func (k *fixture) requirePagesComplete(list listCall, own []string) {
	k.t.Helper()
	whole, next, err := list(k.controller, 0, "")
	require.NoError(k.t, err)
	require.Empty(k.t, next)
	require.Subset(k.t, whole, own)
	for _, most := range []int32{1, 2, 3, int32(len(whole)), int32(len(whole)) + 1} {
		require.ElementsMatch(k.t, whole, k.allPages(list, most))
	}
}

// requireBadTokens requires that none of the bad tokens is answered with a page.
func (k *fixture) requireBadTokens(list listCall, of string) {
	k.t.Helper()
	_, good, err := list(k.controller, 1, "")
	require.NoError(k.t, err)
	require.NotEmpty(k.t, good)
	for _, bad := range []string{"invalid-token", of, good + "A", good[:len(good)-1], "A" + good[1:], strings.Repeat("t", 129), strings.Repeat("t", 5000), "\x00", " " + good} {
		for range 2 {
			_, _, err := list(k.controller, 1, bad)
			requireRefused(k.t, err, codes.Aborted)
		}
	}
	_, _, err = list(k.controller, 1, good)
	require.NoError(k.t, err)
}

// someVolumes and someSnapshots are so many that lists have pages.
func (k *fixture) someVolumes() []string { return k.volumes(3) }

func (k *fixture) someSnapshots() []string {
	source := k.volume().ID
	var ids []string
	for range 3 {
		ids = append(ids, k.snapshot(source).GetSnapshotId())
	}
	return ids
}

// tokenOf returns a valid token of a list.
func (k *fixture) tokenOf(list listCall) string {
	k.t.Helper()
	_, token, err := list(k.controller, 1, "")
	require.NoError(k.t, err)
	require.NotEmpty(k.t, token)
	return token
}

// requireCondition as CSI demands.
func (k *fixture) requireCondition(c *csi.VolumeCondition) {
	k.t.Helper()
	require.NotNil(k.t, c)
	require.False(k.t, c.GetAbnormal(), c.GetMessage())
	require.NotEmpty(k.t, c.GetMessage())
	require.LessOrEqual(k.t, len(c.GetMessage()), 128)
}

var listVolumesRows = map[string]rowTest{
	"CSI-CTRL-ListVolumes-02": rowOf(func(k *fixture) {
		ids := k.someVolumes()
		require.Subset(k.t, k.allPages(k.volumeListing, 100), ids)
		require.NoError(k.t, k.deleted(&csi.DeleteVolumeRequest{VolumeId: ids[1]}))
		left := k.allPages(k.volumeListing, 100)
		require.NotContains(k.t, left, ids[1])
		require.Subset(k.t, left, []string{ids[0], ids[2]})
	}),
	"CSI-CTRL-ListVolumes-03": rowOf(func(k *fixture) { k.requirePagesComplete(k.volumeListing, k.someVolumes()) }),
	"CSI-CTRL-ListVolumes-04": rowOf(func(k *fixture) { k.requirePagesComplete(k.volumeListing, k.someVolumes()) }),
	"CSI-CTRL-ListVolumes-05": rowOf(func(k *fixture) {
		own := k.volumes(120)
		ids, next, err := k.volumeListing(k.controller, 0, "")
		require.NoError(k.t, err)
		require.Empty(k.t, next)
		require.Subset(k.t, ids, own)
	}),
	"CSI-CTRL-ListVolumes-06": rowRefused(codes.InvalidArgument, func(k *fixture) error {
		_, _, err := k.volumeListing(k.controller, -1, "")
		return err
	}),
	"CSI-CTRL-ListVolumes-07": rowOf(func(k *fixture) {
		k.someVolumes()
		unset, err := k.controller.ListVolumes(k.ctx, &csi.ListVolumesRequest{MaxEntries: 2})
		require.NoError(k.t, err)
		empty, err := k.controller.ListVolumes(k.ctx, &csi.ListVolumesRequest{MaxEntries: 2, StartingToken: ""})
		require.NoError(k.t, err)
		requireSame(k, unset, empty)
		all, _, err := k.volumeListing(k.controller, 0, "")
		require.NoError(k.t, err)
		require.Equal(k.t, all[0], empty.GetEntries()[0].GetVolume().GetVolumeId())
	}),
	"CSI-CTRL-ListVolumes-08": rowOf(func(k *fixture) {
		k.someVolumes()
		k.someSnapshots()
		k.requireBadTokens(k.volumeListing, k.tokenOf(k.snapshotListing))
	}),
	"CSI-CTRL-ListVolumes-09": rowOf(func(k *fixture) {
		k.createVolume(withName(strings.Repeat("l", 128)))
		k.someVolumes()
		k.allPages(k.volumeListing, 1)
	}),
	"CSI-CTRL-ListVolumes-10": rowOf(func(k *fixture) {
		for range 3 {
			own := k.someVolumes()
			page, token, err := k.volumeListing(k.controller, 1, "")
			require.NoError(k.t, err)
			if slices.Contains(own, page[0]) {
				require.NoError(k.t, k.deleted(&csi.DeleteVolumeRequest{VolumeId: page[0]}))
			}
			rest := k.volume().ID
			k.everyController(func(_ string, c csi.ControllerClient) {
				ids, _, err := k.volumeListing(c, 0, token)
				require.NoError(k.t, err)
				require.NotContains(k.t, ids, page[0])
				if rest > page[0] {
					require.Contains(k.t, ids, rest)
				}
			})
		}
	}),
	"CSI-CTRL-ListVolumes-11": rowOf(func(k *fixture) {
		req := k.newCreateRequest()
		v := k.createVolumeFrom(req)
		requireSame(k, v, k.listEntry(v.GetVolumeId()).GetVolume())
	}),
	"CSI-CTRL-ListVolumes-12": rowOf(func(k *fixture) {
		require.True(k.t, controllerHas(csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES)(k, k.env.Conn(k.t, "c1")))
		one, two := k.createVolume().GetVolumeId(), k.createVolume().GetVolumeId()
		k.published(publication(two))
		require.NotNil(k.t, k.listEntry(one).GetStatus())
		require.NotNil(k.t, k.listEntry(two).GetStatus())
	}),
	"CSI-CTRL-ListVolumes-13": rowOf(func(k *fixture) {
		for _, node := range []string{"n1", "n2"} {
			id := k.createVolume(withTopology(nodeTerms(node), nil)).GetVolumeId()
			require.Empty(k.t, k.listEntry(id).GetStatus().GetPublishedNodeIds())
			req := publication(id)
			req.NodeId = node
			k.published(req)
			require.Equal(k.t, []string{node}, k.listEntry(id).GetStatus().GetPublishedNodeIds())
			require.NoError(k.t, k.unpublish(id, node))
			require.Empty(k.t, k.listEntry(id).GetStatus().GetPublishedNodeIds())
		}
	}),
	"CSI-CTRL-ListVolumes-14": rowOf(func(k *fixture) {
		require.True(k.t, controllerHas(csi.ControllerServiceCapability_RPC_VOLUME_CONDITION)(k, k.env.Conn(k.t, "c1")))
		k.requireCondition(k.listEntry(k.createVolume().GetVolumeId()).GetStatus().GetVolumeCondition())
	}),
}

func (k *fixture) getFails(id string) error {
	_, err := k.controller.ControllerGetVolume(k.ctx, &csi.ControllerGetVolumeRequest{VolumeId: id})
	return err
}

var getVolumeRows = map[string]rowTest{
	"CSI-CTRL-ControllerGetVolume-02": rowOf(func(k *fixture) {
		require.True(k.t, controllerHas(csi.ControllerServiceCapability_RPC_VOLUME_CONDITION)(k, k.env.Conn(k.t, "c1")))
		k.requireCondition(k.get(k.createVolume().GetVolumeId()).GetStatus().GetVolumeCondition())
	}),
	"CSI-CTRL-ControllerGetVolume-03": rowRefused(codes.InvalidArgument, func(k *fixture) error { return k.getFails("") }),
	"CSI-CTRL-ControllerGetVolume-04": rowOf(func(k *fixture) {
		gone := k.createVolume().GetVolumeId()
		require.NoError(k.t, k.deleted(&csi.DeleteVolumeRequest{VolumeId: gone}))
		for _, id := range []string{gone, unknownVolumeID, "x"} {
			requireRefused(k.t, k.getFails(id), codes.NotFound)
		}
	}),
	"CSI-CTRL-ControllerGetVolume-05": rowOf(func(k *fixture) {
		v := k.createVolume()
		got := k.get(v.GetVolumeId())
		requireSame(k, v, got.GetVolume())
		require.NotNil(k.t, got.GetStatus())
	}),
	"CSI-CTRL-ControllerGetVolume-06": rowOf(func(k *fixture) {
		id := k.createVolume().GetVolumeId()
		require.Empty(k.t, k.get(id).GetStatus().GetPublishedNodeIds())
		k.published(publication(id))
		require.Equal(k.t, []string{"n1"}, k.get(id).GetStatus().GetPublishedNodeIds())
	}),
	"CSI-CTRL-ControllerGetVolume-07": rowOf(func(k *fixture) {
		id := k.createVolume().GetVolumeId()
		k.published(publication(id))
		for size := int64(20 * harness.Mi); size <= 28*harness.Mi; size += 4 * harness.Mi {
			k.grown(id, size)
			k.everyController(func(_ string, c csi.ControllerClient) {
				got, err := c.ControllerGetVolume(k.ctx, &csi.ControllerGetVolumeRequest{VolumeId: id})
				require.NoError(k.t, err)
				require.Equal(k.t, size, got.GetVolume().GetCapacityBytes())
				require.Equal(k.t, []string{"n1"}, got.GetStatus().GetPublishedNodeIds())
			})
		}
	}),
}

var conditionRows = map[string]rowTest{
	"CSI-CTRL-VolumeCondition-01": rowOf(func(k *fixture) {
		id := k.createVolume().GetVolumeId()
		k.requireCondition(k.get(id).GetStatus().GetVolumeCondition())
		k.requireCondition(k.listEntry(id).GetStatus().GetVolumeCondition())
	}),
}

var disabledListRows = map[string]rowTest{
	"CSI-CTRL-ListVolumes-01": rowSwitchable(csi.ControllerServiceCapability_RPC_LIST_VOLUMES, func(k *fixture, c csi.ControllerClient) error {
		_, err := c.ListVolumes(k.ctx, &csi.ListVolumesRequest{})
		return err
	}),
	"CSI-CTRL-ControllerGetVolume-01": rowSwitchable(csi.ControllerServiceCapability_RPC_GET_VOLUME, func(k *fixture, c csi.ControllerClient) error {
		_, err := c.ControllerGetVolume(k.ctx, &csi.ControllerGetVolumeRequest{VolumeId: k.createVolume().GetVolumeId()})
		return err
	}),
	"CSI-CTRL-ControllerGetCapabilities-07": rowOf(capabilityMatrix),
}

// capabilityMatrix: of each capability that is advertised the call is served, and of
// each that is not it is UNIMPLEMENTED.
func capabilityMatrix(k *fixture) {
	id := k.createVolume().GetVolumeId()
	snapshot := k.snapshot(id).GetSnapshotId()
	grow := &csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: harness.Mi}}
	for of, call := range map[csi.ControllerServiceCapability_RPC_Type]func(c csi.ControllerClient) error{
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES: func(c csi.ControllerClient) error {
			_, err := c.ListVolumes(k.ctx, &csi.ListVolumesRequest{})
			return err
		},
		csi.ControllerServiceCapability_RPC_GET_VOLUME: func(c csi.ControllerClient) error {
			_, err := c.ControllerGetVolume(k.ctx, &csi.ControllerGetVolumeRequest{VolumeId: id})
			return err
		},
		csi.ControllerServiceCapability_RPC_GET_CAPACITY: func(c csi.ControllerClient) error {
			_, err := c.GetCapacity(k.ctx, &csi.GetCapacityRequest{})
			return err
		},
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT: func(c csi.ControllerClient) error {
			_, err := c.DeleteSnapshot(k.ctx, &csi.DeleteSnapshotRequest{SnapshotId: unknownSnapshotID})
			return err
		},
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS: func(c csi.ControllerClient) error {
			_, err := c.ListSnapshots(k.ctx, &csi.ListSnapshotsRequest{})
			return err
		},
		csi.ControllerServiceCapability_RPC_GET_SNAPSHOT: func(c csi.ControllerClient) error {
			_, err := c.GetSnapshot(k.ctx, &csi.GetSnapshotRequest{SnapshotId: snapshot})
			return err
		},
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME: func(c csi.ControllerClient) error {
			_, err := c.ControllerExpandVolume(k.ctx, grow)
			return err
		},
		csi.ControllerServiceCapability_RPC_MODIFY_VOLUME: func(c csi.ControllerClient) error {
			_, err := c.ControllerModifyVolume(k.ctx, &csi.ControllerModifyVolumeRequest{VolumeId: id, MutableParameters: map[string]string{"iopsLimit": "1000/1000"}})
			return err
		},
	} {
		rowSwitchable(of, func(_ *fixture, c csi.ControllerClient) error { return call(c) })(k.t, k.env)
	}
}

func (k *fixture) capabilities(c csi.ControllerClient) *csi.ControllerGetCapabilitiesResponse {
	k.t.Helper()
	res, err := c.ControllerGetCapabilities(k.ctx, &csi.ControllerGetCapabilitiesRequest{})
	require.NoError(k.t, err)
	return res
}

var capabilitiesRows = map[string]rowTest{
	"CSI-CTRL-ControllerGetCapabilities-01": rowOf(func(k *fixture) { require.NotEmpty(k.t, k.capabilities(k.controller).GetCapabilities()) }),
	"CSI-CTRL-ControllerGetCapabilities-02": rowOf(func(k *fixture) {
		seen := map[csi.ControllerServiceCapability_RPC_Type]bool{}
		for _, c := range k.capabilities(k.controller).GetCapabilities() {
			of := c.GetRpc().GetType()
			require.NotNil(k.t, c.GetRpc())
			require.NotZero(k.t, of)
			require.Contains(k.t, csi.ControllerServiceCapability_RPC_Type_name, int32(of))
			require.False(k.t, seen[of], "%s is told twice", of)
			seen[of] = true
		}
	}),
	"CSI-CTRL-ControllerGetCapabilities-03": rowOf(func(k *fixture) {
		require.True(k.t, controllerHas(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT)(k, k.env.Conn(k.t, "c1")))
		snapshot := k.snapshot(k.volumeWithText("restored").GetVolumeId()).GetSnapshotId()
		require.Equal(k.t, "restored", k.newMountedUse(k.createVolume(fromSnapshot(snapshot)), mountCapability(writer, "ext4"), false).read())
	}),
	"CSI-CTRL-ControllerGetCapabilities-04": rowOf(func(k *fixture) {
		conn := k.env.Conn(k.t, "c1")
		require.True(k.t, controllerHas(csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES)(k, conn))
		require.True(k.t, controllerHas(csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)(k, conn))
		k.requireCannotDisable("PUBLISH_UNPUBLISH_VOLUME")
	}),
	"CSI-CTRL-ControllerGetCapabilities-05": rowOf(readOnlyIsReadOnly),
	"CSI-CTRL-ControllerGetCapabilities-06": rowCreateRejected(codes.NotFound, fromVolume("of another plugin"), fromVolume(unknownVolumeID)),
	"CSI-CTRL-ControllerGetCapabilities-08": rowOf(func(k *fixture) {
		first := k.capabilities(k.controller)
		k.everyController(func(_ string, c csi.ControllerClient) { requireSame(k, first, k.capabilities(c)) })
	}),
}
