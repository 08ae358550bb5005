package controller_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/csi/controller"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

type validateReq = csi.ValidateVolumeCapabilitiesRequest

// CSI-CTRL-ValidateVolumeCapabilities-01..12, CSI-CTRL-VolumeCapability-01..03.
func TestValidateVolumeCapabilities(t *testing.T) {
	w := newEnv(t)
	id := w.create(t, "v", withCapabilities(mount(writer, "xfs")))
	before := w.cluster.proposedCount()
	caps := func(all ...*csi.VolumeCapability) func(*validateReq) {
		return func(r *validateReq) { r.VolumeCapabilities = all }
	}
	for name, tc := range map[string]struct {
		change    func(*validateReq)
		want      codes.Code
		confirmed bool
	}{
		"-08: what it was made for":                 {func(*validateReq) {}, codes.OK, true},
		"-08: with the filesystem":                  {caps(mount(writer, "xfs"), mount(reader, "")), codes.OK, true},
		"-09: the parameters are echoed":            {func(r *validateReq) { r.Parameters = mapOf("fsType", "xfs", "replicas", "1") }, codes.OK, true},
		"-06: keys of the CO are no part of it":     {func(r *validateReq) { r.VolumeContext = mapOf("csi.storage.k8s.io/pod.name", "p") }, codes.OK, true},
		"-02: one of two is not supported":          {caps(mount(writer, ""), block(writer)), codes.OK, false},
		"-10: a mode of many nodes":                 {caps(mount(multiNodeMultiWriter, "")), codes.OK, false},
		"-10: another filesystem":                   {caps(mount(writer, "ext4")), codes.OK, false},
		"S73, -10: a filesystem that nobody serves": {caps(mount(writer, "zfs")), codes.OK, false},
		"-10: another filesystem as a parameter":    {func(r *validateReq) { r.Parameters = mapOf("fsType", "ext4") }, codes.OK, false},
		"-06: another volume's context":             {func(r *validateReq) { r.VolumeContext = mapOf("pool", "x") }, codes.OK, false},
		"-07: an unknown parameter":                 {func(r *validateReq) { r.Parameters = mapOf("raid", strings.Repeat("6", 300)) }, codes.OK, false},
		"-10: another number of replicas":           {func(r *validateReq) { r.Parameters = mapOf("replicas", "2") }, codes.OK, false},
		"-11: the message is bounded":               {func(r *validateReq) { r.Parameters = mapOf(strings.Repeat("k", 3000), "6") }, codes.OK, false},
		"EXT-Modify-11: mutable parameters":         {func(r *validateReq) { r.MutableParameters = mapOf("iopsLimit", "1") }, codes.OK, true},
		"EXT-Modify-11: an unknown one":             {func(r *validateReq) { r.MutableParameters = mapOf("iops", "1") }, codes.OK, false},
		"-04: a volume is required":                 {func(r *validateReq) { r.VolumeId = "" }, codes.InvalidArgument, false},
		"-05: capabilities are required":            {caps(), codes.InvalidArgument, false},
		"VolumeCapability-01: an access type":       {caps(&csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: writer}}), codes.InvalidArgument, false},
		"VolumeCapability-03: a mode":               {caps(mount(99, "")), codes.InvalidArgument, false},
		"-12: an unknown volume":                    {func(r *validateReq) { r.VolumeId = unknownID }, codes.NotFound, false},
		"-12: an id of another form":                {func(r *validateReq) { r.VolumeId = "fake-vol-id" }, codes.NotFound, false},
		"GEN-Error-12: form before the volume":      {validateChanges(caps(), func(r *validateReq) { r.VolumeId = unknownID }), codes.InvalidArgument, false},
		"GEN-Size-04: a context above 4 KiB":        {func(r *validateReq) { r.VolumeContext = mapOf("a.k8s.io/b", strings.Repeat("x", 4096)) }, codes.InvalidArgument, false},
		"GEN-Secrets-05: secrets may be there too":  {func(r *validateReq) { r.Secrets = mapOf("a", "b") }, codes.OK, true},
	} {
		t.Run(name, func(t *testing.T) {
			req := &validateReq{VolumeId: id, VolumeCapabilities: []*csi.VolumeCapability{mount(writer, "")}}
			tc.change(req)
			for range 2 {
				resp, err := w.ValidateVolumeCapabilities(t.Context(), req)
				requireCode(t, tc.want, err)
				require.Equal(t, tc.confirmed, resp.GetConfirmed() != nil)
				require.Equal(t, tc.want == codes.OK && !tc.confirmed, resp.GetMessage() != "")
				if tc.confirmed {
					require.True(t, proto.Equal(&validateReq{VolumeCapabilities: req.GetVolumeCapabilities(), Parameters: req.GetParameters(), VolumeContext: req.GetVolumeContext(), MutableParameters: req.GetMutableParameters()},
						&validateReq{VolumeCapabilities: resp.GetConfirmed().GetVolumeCapabilities(), Parameters: resp.GetConfirmed().GetParameters(), VolumeContext: resp.GetConfirmed().GetVolumeContext(), MutableParameters: resp.GetConfirmed().GetMutableParameters()}))
				}
			}
		})
	}
	require.Equal(t, before, w.cluster.proposedCount(), "-03: nothing changed")
}

func validateChanges(changes ...func(*validateReq)) func(*validateReq) {
	return func(r *validateReq) {
		for _, change := range changes {
			change(r)
		}
	}
}

// CSI-GEN-Field-05: fields of a newer CSI are ignored.
func TestUnknownFieldsAreIgnored(t *testing.T) {
	w := newEnv(t)
	id := w.create(t, "v")
	req := &validateReq{VolumeId: id, VolumeCapabilities: []*csi.VolumeCapability{mount(writer, "")}}
	req.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 4000, protowire.BytesType), "new"))
	resp, err := w.ValidateVolumeCapabilities(t.Context(), req)
	require.NoError(t, err)
	require.NotNil(t, resp.GetConfirmed())
}

// CSI-CTRL-ListVolumes-02..07, -09, -11..13: pages hold each volume once.
func TestListVolumesPages(t *testing.T) {
	w := newEnv(t)
	want := map[string]bool{}
	for i := range 7 {
		want[w.create(t, fmt.Sprintf("v%d", i))] = true
	}
	for page := int32(0); page <= 8; page++ {
		got, calls := map[string]bool{}, 0
		for token := ""; calls == 0 || token != ""; calls++ {
			resp, err := w.ListVolumes(t.Context(), &csi.ListVolumesRequest{MaxEntries: page, StartingToken: token})
			require.NoError(t, err)
			require.True(t, page == 0 || len(resp.GetEntries()) <= int(page))
			require.NotEmpty(t, resp.GetEntries())
			for _, e := range resp.GetEntries() {
				require.False(t, got[e.GetVolume().GetVolumeId()])
				got[e.GetVolume().GetVolumeId()] = true
				require.NotNil(t, e.GetStatus().GetVolumeCondition())
				require.NotEmpty(t, e.GetVolume().GetAccessibleTopology())
				require.Equal(t, gib, e.GetVolume().GetCapacityBytes())
			}
			token = resp.GetNextToken()
		}
		require.Equal(t, want, got)
		if page > 0 {
			require.Equal(t, (7+int(page)-1)/int(page), calls, "-04: a token only where more follows")
		}
	}
}

// CSI-CTRL-ListVolumes-06, -08, -10: tokens.
func TestListVolumesTokens(t *testing.T) {
	w := newEnv(t)
	var ids []string
	for i := range 3 {
		ids = append(ids, w.create(t, fmt.Sprintf("v%d", i)))
	}
	first, err := w.ListVolumes(t.Context(), &csi.ListVolumesRequest{MaxEntries: 1})
	require.NoError(t, err)
	valid := first.GetNextToken()
	for name, tc := range map[string]struct {
		token string
		max   int32
		want  codes.Code
	}{
		"-06: a negative number of entries": {"", -1, codes.InvalidArgument},
		"-08: no token at all":              {"invalid-token", 0, codes.Aborted},
		"-08: one above 128 bytes":          {strings.Repeat("t", 129), 0, codes.Aborted},
		"-08: a control character":          {"\x01", 0, codes.Aborted},
		"-08: a changed one":                {"A" + valid[1:], 0, codes.Aborted},
		"-08: a cut one":                    {valid[:len(valid)-1], 0, codes.Aborted},
		"-08: one of another incarnation":   {controller.Token(fsm.VolumeID(ids[0]), 2), 0, codes.Aborted},
		"-08: one of this list":             {valid, 0, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				_, err := w.ListVolumes(t.Context(), &csi.ListVolumesRequest{StartingToken: tc.token, MaxEntries: tc.max})
				requireCode(t, tc.want, err)
			}
		})
	}
	t.Run("-10: its volume may be gone meanwhile", func(t *testing.T) {
		require.NoError(t, w.delete(t, first.GetEntries()[0].GetVolume().GetVolumeId()))
		rest, err := w.ListVolumes(t.Context(), &csi.ListVolumesRequest{StartingToken: valid})
		require.NoError(t, err)
		require.Len(t, rest.GetEntries(), 2)
	})
}

// CSI-CTRL-ListVolumes-05: without a limit 5000 volumes are one answer; what does
// not fit a message comes under a token.
func TestListVolumesWithoutALimit(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of volumes, which is slow under the race detector")
	}
	w := newEnv(t)
	w.host.update(func(h *fakeHost) { h.idle = true })
	const many = 20_000
	for i := range many {
		id := fmt.Sprintf("hf-%08x-0000-4000-8000-000000000000", i)
		_, err := w.cluster.apply("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
			VolumeId: id, Name: id, RequiredBytes: 4096, Replicas: 1,
			Capabilities: []*fsmpb.Capability{{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, Block: true}},
		}}})
		require.NoError(t, err)
	}
	w.host.update(func(h *fakeHost) { h.idle = false })
	w.host.reconcile()
	got, calls := 0, 0
	for token := ""; calls == 0 || token != ""; calls++ {
		resp, err := w.ListVolumes(t.Context(), &csi.ListVolumesRequest{StartingToken: token})
		require.NoError(t, err)
		require.True(t, len(resp.GetEntries()) >= 5000 || resp.GetNextToken() == "")
		require.Less(t, proto.Size(resp), 4<<20)
		got += len(resp.GetEntries())
		token = resp.GetNextToken()
	}
	require.Equal(t, many, got)
	require.Greater(t, calls, 1)
}

// CSI-CTRL-ControllerGetVolume-02..07, CSI-CTRL-ListVolumes-12..14, CSI-CTRL-VolumeCondition-01..03.
func TestControllerGetVolume(t *testing.T) {
	w := newEnv(t)
	id := w.create(t, "v")
	get := func() *csi.ControllerGetVolumeResponse {
		t.Helper()
		resp, err := w.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: id})
		require.NoError(t, err)
		list, err := w.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
		require.NoError(t, err)
		require.Len(t, list.GetEntries(), 1)
		entry := list.GetEntries()[0]
		require.True(t, proto.Equal(resp.GetVolume(), entry.GetVolume()))
		require.True(t, proto.Equal(resp.GetStatus().GetVolumeCondition(), entry.GetStatus().GetVolumeCondition()))
		require.Equal(t, resp.GetStatus().GetPublishedNodeIds(), entry.GetStatus().GetPublishedNodeIds())
		require.NotEmpty(t, resp.GetStatus().GetVolumeCondition().GetMessage())
		return resp
	}
	require.Equal(t, gib, get().GetVolume().GetCapacityBytes())
	require.Empty(t, get().GetStatus().GetPublishedNodeIds())
	require.False(t, get().GetStatus().GetVolumeCondition().GetAbnormal())

	w.publish(t, id, mount(writer, ""))
	require.Equal(t, []string{"n1"}, get().GetStatus().GetPublishedNodeIds())

	w.host.setReachable(t, false)
	require.True(t, get().GetStatus().GetVolumeCondition().GetAbnormal())
	require.Contains(t, get().GetStatus().GetVolumeCondition().GetMessage(), "n1")
	w.host.setReachable(t, true)
	require.False(t, get().GetStatus().GetVolumeCondition().GetAbnormal())

	w.host.report(&fsmpb.Observation{VolumeId: id, Fact: &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{Detail: strings.Repeat("é", 400)}}})
	require.True(t, get().GetStatus().GetVolumeCondition().GetAbnormal())
	require.LessOrEqual(t, len(get().GetStatus().GetVolumeCondition().GetMessage()), 128)

	for name, tc := range map[string]struct {
		id   string
		want codes.Code
	}{
		"-03: an id is required":     {"", codes.InvalidArgument},
		"-04: an unknown volume":     {unknownID, codes.NotFound},
		"-04: an id of another form": {"fake-vol-id", codes.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: tc.id})
			requireCode(t, tc.want, err)
		})
	}
}

// CSI-CTRL-GetCapacity-02..04, -06..09, -11, -12.
func TestGetCapacity(t *testing.T) {
	const pool = 1000 * gib // 100 GiB, ten times over-committed
	type req = csi.GetCapacityRequest
	w := newEnv(t, hostIn("n1", "z1"), hostIn("n2", "z2"))
	w.create(t, "v", withCapacity(10*gib, 0), accessibleFrom([]*csi.Topology{topologyTerm(fsm.ZoneKey, "z1")}, nil))
	caps := func(all ...*csi.VolumeCapability) func(*req) {
		return func(r *req) { r.VolumeCapabilities = all }
	}
	for name, tc := range map[string]struct {
		change                func(*req)
		want                  codes.Code
		total, largest, least int64
	}{
		"-06: everything":                        {func(*req) {}, codes.OK, 2*pool - 10*gib, pool, fsm.MinExt4Size},
		"-04: a zone":                            {func(r *req) { r.AccessibleTopology = topologyTerm(fsm.ZoneKey, "z1") }, codes.OK, pool - 10*gib, pool - 10*gib, fsm.MinExt4Size},
		"-04: a host":                            {func(r *req) { r.AccessibleTopology = topologyTerm(fsm.TopologyKey, "n2", fsm.ZoneKey, "z2") }, codes.OK, pool, pool, fsm.MinExt4Size},
		"-04: a zone without hosts":              {func(r *req) { r.AccessibleTopology = topologyTerm(fsm.ZoneKey, "z3") }, codes.OK, 0, 0, 0},
		"-04: a topology without segments":       {func(r *req) { r.AccessibleTopology = topologyTerm() }, codes.OK, 2*pool - 10*gib, pool, fsm.MinExt4Size},
		"Topology-15: a malformed one":           {func(r *req) { r.AccessibleTopology = topologyTerm(fsm.ZoneKey, "-") }, codes.InvalidArgument, 0, 0, 0},
		"-09, -11: xfs":                          {caps(mount(writer, "xfs")), codes.OK, 2*pool - 10*gib, pool, fsm.MinXFSSize},
		"-09, -11: xfs by parameter":             {func(r *req) { r.Parameters = mapOf("fsType", "xfs") }, codes.OK, 2*pool - 10*gib, pool, fsm.MinXFSSize},
		"-09: block":                             {caps(block(writer)), codes.OK, 2*pool - 10*gib, pool, fsm.VolumeSizeUnit},
		"-02: a capability that no volume has":   {caps(mount(multiNodeMultiWriter, "")), codes.OK, 0, 0, 0},
		"-02: capabilities that exclude another": {caps(mount(writer, ""), block(writer)), codes.OK, 0, 0, 0},
		"-02: a malformed capability":            {caps(&csi.VolumeCapability{}), codes.InvalidArgument, 0, 0, 0},
		"-03: a parameter that is not served":    {func(r *req) { r.Parameters = mapOf("replicas", "3") }, codes.InvalidArgument, 0, 0, 0},
		"-03: an unknown parameter":              {func(r *req) { r.Parameters = mapOf("raid", "6") }, codes.InvalidArgument, 0, 0, 0},
		"-03: one replica":                       {func(r *req) { r.Parameters = mapOf("replicas", "1") }, codes.OK, 2*pool - 10*gib, pool, fsm.MinExt4Size},
	} {
		t.Run(name, func(t *testing.T) {
			requested := &req{}
			tc.change(requested)
			for range 2 {
				resp, err := w.GetCapacity(t.Context(), requested)
				requireCode(t, tc.want, err)
				require.Equal(t, tc.total, resp.GetAvailableCapacity())
				require.Equal(t, tc.largest, resp.GetMaximumVolumeSize().GetValue())
				require.Equal(t, tc.least, resp.GetMinimumVolumeSize().GetValue())
				require.Equal(t, tc.total == 0, resp.GetMaximumVolumeSize() == nil)
			}
		})
	}
}

// CSI-CTRL-GetCapacity-07, -08: its bounds are those of CreateVolume.
func TestGetCapacityMatchesCreateVolume(t *testing.T) {
	w := newEnv(t)
	room, err := w.GetCapacity(t.Context(), &csi.GetCapacityRequest{})
	require.NoError(t, err)
	least, largest := room.GetMinimumVolumeSize().GetValue(), room.GetMaximumVolumeSize().GetValue()

	_, err = w.CreateVolume(t.Context(), createRequest("v", withCapacity(0, least-1)))
	requireCode(t, codes.OutOfRange, err)
	require.NoError(t, w.delete(t, w.create(t, "v", withCapacity(0, least))))
	_, err = w.CreateVolume(t.Context(), createRequest("v", withCapacity(largest+1, 0)))
	requireCode(t, codes.ResourceExhausted, err)
	w.create(t, "v", withCapacity(largest, 0))
	full, err := w.GetCapacity(t.Context(), &csi.GetCapacityRequest{})
	require.NoError(t, err)
	require.Zero(t, full.GetAvailableCapacity())
}

// CSI-CTRL-ControllerGetCapabilities-01, -02, -04, -05, -07, -08, and the capability
// row of each RPC: what is advertised answers, all else is UNIMPLEMENTED.
// CSI-GEN-Error-09, -11, CSI-GEN-Svc-03, -05.
func TestControllerGetCapabilities(t *testing.T) {
	w := newEnv(t)
	resp, err := w.ControllerGetCapabilities(t.Context(), &csi.ControllerGetCapabilitiesRequest{})
	require.NoError(t, err)
	has := map[csi.ControllerServiceCapability_RPC_Type]bool{}
	for _, c := range resp.GetCapabilities() {
		require.NotNil(t, c.GetRpc())
		require.NotZero(t, c.GetRpc().GetType())
		require.False(t, has[c.GetRpc().GetType()])
		has[c.GetRpc().GetType()] = true
	}
	type rpc = csi.ControllerServiceCapability_RPC_Type
	gates := map[string]rpc{
		"CreateVolume": csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, "DeleteVolume": csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		"ControllerPublishVolume": csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME, "ControllerUnpublishVolume": csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		"ListVolumes": csi.ControllerServiceCapability_RPC_LIST_VOLUMES, "GetCapacity": csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		"CreateSnapshot": csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT, "DeleteSnapshot": csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		"ListSnapshots": csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS, "GetSnapshot": csi.ControllerServiceCapability_RPC_GET_SNAPSHOT,
		"ControllerExpandVolume": csi.ControllerServiceCapability_RPC_EXPAND_VOLUME, "ControllerGetVolume": csi.ControllerServiceCapability_RPC_GET_VOLUME,
		"ControllerModifyVolume": csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
	}
	requireMethods(t, w.controllers, csi.Controller_ServiceDesc, func(method string) bool {
		gate, gated := gates[method]
		return !gated || has[gate]
	})
	require.True(t, has[csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME] || !has[csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES])
	node, err := w.node.NodeGetCapabilities(t.Context(), &csi.NodeGetCapabilitiesRequest{})
	require.NoError(t, err)
	onNode := false
	for _, c := range node.GetCapabilities() {
		onNode = onNode || c.GetRpc().GetType() == csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER
	}
	require.Equal(t, has[csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER], onNode, "CSI-NODE-NodeGetCapabilities-04")
}

// requireMethods calls every method of a service with an empty request.
func requireMethods(t *testing.T, conn *grpc.ClientConn, service grpc.ServiceDesc, served func(string) bool) {
	t.Helper()
	for _, m := range service.Methods {
		err := conn.Invoke(t.Context(), "/"+service.ServiceName+"/"+m.MethodName, &csi.ProbeRequest{}, &csi.ProbeResponse{})
		if served(m.MethodName) {
			require.NotContains(t, fmt.Sprint(err), codes.Unimplemented.String(), m.MethodName)
		} else {
			requireCode(t, codes.Unimplemented, err)
		}
	}
}

// CSI-GEN-Error-09, CSI-GEN-Svc-01, -02, -04, S20: a node serves no controller, a
// controller no node, both the identity.
func TestS20_EachSocketServesItsServices(t *testing.T) {
	w := newEnv(t)
	none := func(string) bool { return false }
	requireMethods(t, w.nodes, csi.Controller_ServiceDesc, none)
	requireMethods(t, w.controllers, csi.Node_ServiceDesc, none)
	requireMethods(t, w.nodes, csi.GroupController_ServiceDesc, none)
	stream, err := csi.NewSnapshotMetadataClient(w.nodes).GetMetadataAllocated(t.Context(), &csi.GetMetadataAllocatedRequest{})
	require.NoError(t, err) // a stream fails when it is read
	_, err = stream.Recv()
	requireCode(t, codes.Unimplemented, err)
	all := func(string) bool { return true }
	requireMethods(t, w.nodes, csi.Node_ServiceDesc, all)
	requireMethods(t, w.controllers, csi.GroupController_ServiceDesc, all)
	requireMethods(t, w.controllers, csi.Identity_ServiceDesc, all)
	requireMethods(t, w.nodes, csi.Identity_ServiceDesc, all)
}

// CSI-CTRL-GetCapacity-06, -07, S25: no volume may be larger than what is free, less the
// reserve, in a pool that is not overcommitted more than twice; this one is ten times.
func TestGetCapacityIsBoundedByWhatIsFree(t *testing.T) {
	w := newEnv(t)
	free := int64(0)
	s := controller.New(w.cluster).WithPoolFacts(func(context.Context) []*fsmpb.PoolFact {
		return []*fsmpb.PoolFact{{PoolId: "pool-n1", FreeBytes: free}}
	})
	for _, free = range []int64{0, 7 * gib, 1 << 60} {
		for range 2 {
			resp, err := s.GetCapacity(t.Context(), &csi.GetCapacityRequest{})
			require.NoError(t, err)
			require.Equal(t, 10*min(free, 100*gib), resp.GetAvailableCapacity())
			require.Equal(t, min(5*min(free, 1000*gib), 1000*gib), resp.GetMaximumVolumeSize().GetValue())
		}
	}
}
