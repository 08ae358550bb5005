package conformance

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// methodCase is one method with a complete request that names no existing object.
type methodCase struct {
	method       string // Service/Method
	process      string // the process that serves it
	req          proto.Message
	required     []string // fields, as the specification has them
	checkedLater []string // fields that are validated only for existing objects
}

// methodCases is every method that has REQUIRED fields.
func methodCases(w *Env) []methodCase {
	c := harness.Volume{FSType: "ext4"}
	one := c.Capability()
	path := w.Path("nowhere")
	return []methodCase{
		{"Controller/CreateVolume", "c1", &csi.CreateVolumeRequest{Name: "x", VolumeCapabilities: []*csi.VolumeCapability{one}}, []string{"name", "volume_capabilities"}, nil},
		{"Controller/DeleteVolume", "c1", &csi.DeleteVolumeRequest{VolumeId: unknownVolumeID}, []string{"volume_id"}, nil},
		{"Controller/ControllerPublishVolume", "c1", &csi.ControllerPublishVolumeRequest{VolumeId: unknownVolumeID, NodeId: "n1", VolumeCapability: one},
			[]string{"volume_id", "node_id", "volume_capability"}, nil},
		{"Controller/ControllerUnpublishVolume", "c1", &csi.ControllerUnpublishVolumeRequest{VolumeId: unknownVolumeID, NodeId: "n1"}, []string{"volume_id"}, nil},
		{"Controller/ValidateVolumeCapabilities", "c1", &csi.ValidateVolumeCapabilitiesRequest{VolumeId: unknownVolumeID, VolumeCapabilities: []*csi.VolumeCapability{one}},
			[]string{"volume_id", "volume_capabilities"}, nil},
		{"Controller/CreateSnapshot", "c1", &csi.CreateSnapshotRequest{Name: "x", SourceVolumeId: unknownVolumeID}, []string{"name", "source_volume_id"}, nil},
		{"Controller/DeleteSnapshot", "c1", &csi.DeleteSnapshotRequest{SnapshotId: unknownSnapshotID}, []string{"snapshot_id"}, nil},
		{"Controller/GetSnapshot", "c1", &csi.GetSnapshotRequest{SnapshotId: unknownSnapshotID}, []string{"snapshot_id"}, nil},
		{"Controller/ControllerGetVolume", "c1", &csi.ControllerGetVolumeRequest{VolumeId: unknownVolumeID}, []string{"volume_id"}, nil},
		{"Controller/ControllerExpandVolume", "c1", &csi.ControllerExpandVolumeRequest{VolumeId: unknownVolumeID, CapacityRange: &csi.CapacityRange{RequiredBytes: 32 * harness.Mi}},
			[]string{"volume_id", "capacity_range"}, nil},
		{"Controller/ControllerModifyVolume", "c1", modification(unknownVolumeID, "iopsLimit", "5"), []string{"volume_id", "mutable_parameters"}, nil},
		{"GroupController/CreateVolumeGroupSnapshot", "c1", &csi.CreateVolumeGroupSnapshotRequest{Name: "x", SourceVolumeIds: []string{unknownVolumeID}},
			[]string{"name", "source_volume_ids"}, nil},
		{"GroupController/DeleteVolumeGroupSnapshot", "c1", &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: unknownGroupID, SnapshotIds: []string{unknownSnapshotID}},
			[]string{"group_snapshot_id"}, []string{"snapshot_ids"}},
		{"GroupController/GetVolumeGroupSnapshot", "c1", &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: unknownGroupID, SnapshotIds: []string{unknownSnapshotID}},
			[]string{"group_snapshot_id"}, []string{"snapshot_ids"}},
		{"SnapshotMetadata/GetMetadataAllocated", "c1", &csi.GetMetadataAllocatedRequest{SnapshotId: unknownSnapshotID}, []string{"snapshot_id"}, nil},
		{"SnapshotMetadata/GetMetadataDelta", "c1", &csi.GetMetadataDeltaRequest{BaseSnapshotId: unknownSnapshotID, TargetSnapshotId: unknownSnapshotID},
			[]string{"base_snapshot_id", "target_snapshot_id"}, nil},
		{"Node/NodeStageVolume", "n1", &csi.NodeStageVolumeRequest{VolumeId: unknownVolumeID, StagingTargetPath: path, VolumeCapability: one},
			[]string{"volume_id", "staging_target_path", "volume_capability"}, nil},
		{"Node/NodeUnstageVolume", "n1", &csi.NodeUnstageVolumeRequest{VolumeId: unknownVolumeID, StagingTargetPath: path}, []string{"volume_id", "staging_target_path"}, nil},
		{"Node/NodePublishVolume", "n1", &csi.NodePublishVolumeRequest{VolumeId: unknownVolumeID, StagingTargetPath: path, TargetPath: path + "-t", VolumeCapability: one},
			[]string{"volume_id", "target_path", "volume_capability"}, nil},
		{"Node/NodeUnpublishVolume", "n1", &csi.NodeUnpublishVolumeRequest{VolumeId: unknownVolumeID, TargetPath: path}, []string{"volume_id", "target_path"}, nil},
		{"Node/NodeGetVolumeStats", "n1", &csi.NodeGetVolumeStatsRequest{VolumeId: unknownVolumeID, VolumePath: path}, []string{"volume_id", "volume_path"}, nil},
		{"Node/NodeExpandVolume", "n1", &csi.NodeExpandVolumeRequest{VolumeId: unknownVolumeID, VolumePath: path}, []string{"volume_id", "volume_path"}, nil},
	}
}

// callMethod calls a method by its name, and answers the last message and the trailer.
func (k *fixture) callMethod(conn *grpc.ClientConn, method string, req proto.Message) (proto.Message, metadata.MD, error) {
	k.t.Helper()
	d := describe(k.t, method)
	kind, err := protoregistry.GlobalTypes.FindMessageByName(d.Output().FullName())
	require.NoError(k.t, err)
	res := kind.New().Interface()
	var trailer metadata.MD
	if !d.IsStreamingServer() {
		return res, trailer, conn.Invoke(k.ctx, "/csi.v1."+method, req, res, grpc.Trailer(&trailer))
	}
	ctx, cancel := context.WithCancel(k.ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/csi.v1."+method)
	if err == nil {
		err = errors.Join(stream.SendMsg(req), stream.CloseSend())
	}
	for err == nil {
		err = stream.RecvMsg(res)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if stream != nil {
		trailer = stream.Trailer()
	}
	return res, trailer, err
}

func describe(t *testing.T, method string) protoreflect.MethodDescriptor {
	t.Helper()
	service, name, _ := strings.Cut(method, "/")
	s := csi.File_csi_proto.Services().ByName(protoreflect.Name(service))
	require.NotNil(t, s, method)
	d := s.Methods().ByName(protoreflect.Name(name))
	require.NotNil(t, d, method)
	return d
}

// methodsOf are all methods of services, with an empty request of each.
func methodsOf(t *testing.T, services ...string) map[string]proto.Message {
	t.Helper()
	all := map[string]proto.Message{}
	for _, service := range services {
		s := csi.File_csi_proto.Services().ByName(protoreflect.Name(service))
		require.NotNil(t, s, service)
		for i := range s.Methods().Len() {
			m := s.Methods().Get(i)
			kind, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
			require.NoError(t, err)
			all[service+"/"+string(m.Name())] = kind.New().Interface()
		}
	}
	return all
}

// The services by the process that serves them.
var (
	ofControllers = []string{"Identity", "Controller", "GroupController", "SnapshotMetadata"}
	ofNodes       = []string{"Identity", "Node"}
)

// eachFailure calls every method with a request that must fail, and passes its result to see.
func (k *fixture) eachFailure(see func(method string, res proto.Message, trailer metadata.MD, err error)) {
	k.t.Helper()
	conns := map[string]*grpc.ClientConn{"c1": k.env.Conn(k.t, "c1"), "n1": k.env.Conn(k.t, "n1")}
	for _, c := range methodCases(k.env) {
		empty := c.req.ProtoReflect().New().Interface()
		res, trailer, err := k.callMethod(conns[c.process], c.method, empty)
		see(c.method, res, trailer, err)
	}
}

// withoutField returns a request without one field.
func withoutField(req proto.Message, field string) proto.Message {
	disabled := proto.Clone(req)
	disabled.ProtoReflect().Clear(disabled.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(field)))
	return disabled
}

// eachMissingField calls every method without each of its REQUIRED fields in turn.
func (k *fixture) eachMissingField(see func(c methodCase, field string, err error)) {
	k.t.Helper()
	conns := map[string]*grpc.ClientConn{"c1": k.env.Conn(k.t, "c1"), "n1": k.env.Conn(k.t, "n1")}
	for _, c := range methodCases(k.env) {
		for _, field := range c.required {
			_, _, err := k.callMethod(conns[c.process], c.method, withoutField(c.req, field))
			see(c, field, err)
		}
	}
}

// requireCode is refused, for one of many calls.
func (k *fixture) requireCode(what string, err error, want ...codes.Code) {
	k.t.Helper()
	s, ok := status.FromError(err)
	require.True(k.t, ok, "%s: no gRPC status: %v", what, err)
	require.True(k.t, slices.Contains(want, s.Code()), "%s: %s (%s) is none of %v", what, s.Code(), s.Message(), want)
}
