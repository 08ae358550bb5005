package conformance

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// ownLimit are the fields whose limit is not 128 bytes.
var ownLimit = map[string]int{"node_id": 256, "target_path": 4096, "staging_target_path": 4096, "volume_path": 4096, "starting_token": 0}

var sizeRows = map[string]rowTest{
	"CSI-GEN-Size-01": rowOf(func(k *fixture) {
		k.eachFieldOfSize(129, func(c methodCase, field string, err error) {
			k.requireCode(c.method+" with 129 bytes of "+field, err, codes.InvalidArgument)
		})
	}),
	"CSI-GEN-Size-02": rowOf(func(k *fixture) {
		name := strings.Repeat("n", 128-len("128-")) + "128-"
		v := k.create(harness.Spec{Name: name, Node: "n1"})
		res, err := k.controller.CreateSnapshot(k.ctx, &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: v.ID})
		require.NoError(k.t, err)
		k.deleteSnapshotLater(res.GetSnapshot().GetSnapshotId())
		k.eachFieldOfSize(128, func(c methodCase, field string, err error) {
			if strings.HasSuffix(field, "_id") {
				k.requireCode(c.method+" with 128 bytes of "+field, err, codes.NotFound, codes.OK)
			}
		})
	}),
	"CSI-GEN-Size-03": rowOf(func(k *fixture) {
		k.create(harness.Spec{Name: strings.Repeat("é", 64), Node: "n1"})
		_, err := k.controller.CreateVolume(k.ctx, harness.Spec{Name: strings.Repeat("é", 65)}.CreateRequest())
		requireRefused(k.t, err, codes.InvalidArgument)
	}),
	"CSI-GEN-Size-04": rowOf(func(k *fixture) {
		v := k.volume()
		fill := func(n int) map[string]string { return map[string]string{"k": strings.Repeat("v", n-1)} }
		_, err := k.controller.DeleteVolume(k.ctx, &csi.DeleteVolumeRequest{VolumeId: unknownVolumeID, Secrets: fill(4096)})
		require.NoError(k.t, err)
		publish := func(secrets, context map[string]string) error {
			_, err := k.controller.ControllerPublishVolume(k.ctx, &csi.ControllerPublishVolumeRequest{VolumeId: v.ID, NodeId: "n1",
				VolumeCapability: v.Capability(), Secrets: secrets, VolumeContext: context})
			return err
		}
		require.NoError(k.t, publish(fill(4096), nil))
		k.cleanUpWith(func(ctx context.Context) error { v.Node = "n1"; return k.env.CO.Unpublish(ctx, v) })
		requireRefused(k.t, publish(fill(4097), nil), codes.InvalidArgument)
		requireRefused(k.t, publish(nil, fill(4097)), codes.InvalidArgument)
		for _, tooBig := range []func(*csi.CreateVolumeRequest){
			func(r *csi.CreateVolumeRequest) {
				r.Parameters = map[string]string{"csi.storage.k8s.io/x": strings.Repeat("v", 4097)}
			},
			func(r *csi.CreateVolumeRequest) { r.Secrets = fill(4097) },
			func(r *csi.CreateVolumeRequest) {
				r.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{{Segments: fill(4097)}}}
			},
		} {
			req := harness.Spec{Name: k.env.Name("vol")}.CreateRequest()
			tooBig(req)
			_, err := k.controller.CreateVolume(k.ctx, req)
			requireRefused(k.t, err, codes.InvalidArgument)
		}
	}),
	"CSI-GEN-Size-07": rowOf(func(k *fixture) {
		_, err := k.controller.ControllerPublishVolume(k.ctx, publishTo(k, strings.Repeat("n", 256)))
		requireRefused(k.t, err, codes.NotFound)
		_, err = k.controller.ControllerPublishVolume(k.ctx, publishTo(k, strings.Repeat("n", 257)))
		requireRefused(k.t, err, codes.InvalidArgument)
		long := k.env.Path("long") + strings.Repeat("/"+strings.Repeat("d", 99), 10)
		_, err = k.env.Node(k.t).NodeUnpublishVolume(k.ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: unknownVolumeID, TargetPath: long})
		require.NoError(k.t, ignoreCode(err, codes.NotFound))
		flags := func(flags ...string) error {
			req := publishTo(k, "nobody")
			req.VolumeCapability.GetMount().MountFlags = flags
			_, err := k.controller.ControllerPublishVolume(k.ctx, req)
			return err
		}
		requireRefused(k.t, flags(longFlags()...), codes.NotFound)
		requireRefused(k.t, flags(append(longFlags(), "ro")...), codes.InvalidArgument)
		requireRefused(k.t, flags(strings.Repeat("f", 4097)), codes.InvalidArgument)
	}),
	"CSI-GEN-Size-05": rowEachAnswer(func(t *testing.T, method string, m protoreflect.Message) {
		eachField(m, func(f protoreflect.FieldDescriptor, v protoreflect.Value) {
			if f.Kind() == protoreflect.StringKind && !f.IsMap() && !f.IsList() {
				limit := 128
				if f.Name() == "node_id" {
					limit = 256
				}
				require.LessOrEqual(t, len(v.String()), limit, "%s answers %s", method, f.Name())
			}
		})
	}),
	"CSI-GEN-Size-06": rowEachAnswer(func(t *testing.T, method string, m protoreflect.Message) {
		eachField(m, func(f protoreflect.FieldDescriptor, v protoreflect.Value) {
			if !f.IsMap() {
				return
			}
			total := 0
			v.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				total += len(key.String()) + len(value.String())
				return true
			})
			require.LessOrEqual(t, total, 4096, "%s answers %s", method, f.Name())
		})
	}),
	"CSI-GEN-Field-04": rowEachAnswer(func(t *testing.T, method string, m protoreflect.Message) {
		requireFilled(t, method, m)
		eachField(m, func(f protoreflect.FieldDescriptor, v protoreflect.Value) {
			switch {
			case f.Kind() != protoreflect.MessageKind || f.IsMap():
			case f.IsList():
				for i := range v.List().Len() {
					requireFilled(t, method, v.List().Get(i).Message())
				}
			default:
				requireFilled(t, method, v.Message())
			}
		})
	}),

	"CSI-GEN-Secrets-01": rowOf(func(k *fixture) {
		for _, key := range []string{"a b", "a/b", "ключ", ""} {
			k.withSecrets(map[string]string{key: "v"}, func(method string, err error) {
				k.requireCode(method+" with the secret "+key, err, codes.InvalidArgument)
			})
		}
		k.withSecrets(map[string]string{"Az-_.09": "v"}, func(method string, err error) {
			k.requireCode(method, err, codes.OK, codes.NotFound)
		})
	}),
	"CSI-GEN-Secrets-02": rowOf(func(k *fixture) {
		for _, value := range []string{base64.StdEncoding.EncodeToString([]byte{0, 1, 255}), "", "line\nbreak"} {
			k.withSecrets(map[string]string{"k": value}, func(method string, err error) {
				k.requireCode(method, err, codes.OK, codes.NotFound)
			})
		}
	}),
	"CSI-GEN-Secrets-05": rowOf(func(k *fixture) {
		all := map[string]string{"user": "u", "password": "p", "key-of_another.rpc": "x"}
		k.withSecrets(all, func(method string, err error) { k.requireCode(method, err, codes.OK, codes.NotFound) })
		req := harness.Spec{Name: k.env.Name("vol"), Node: "n1"}.CreateRequest()
		req.Secrets = all
		res, err := k.controller.CreateVolume(k.ctx, req)
		require.NoError(k.t, err)
		k.deleteVolumeLater(res.GetVolume().GetVolumeId())
	}),
	"CSI-GEN-Secrets-06": rowOf(func(k *fixture) { k.requireSecretsHidden("canary-8f1d4e-secret") }),
	"CSI-OPS-Sec-03":     rowOf(func(k *fixture) { k.requireSecretsHidden("canary-2b7c90-sensitive") }),
	"CSI-OPS-Oper-04":    rowOf(func(k *fixture) { k.requireSecretsHidden("canary-5a6e11-logged") }),
	"CSI-GEN-Secrets-07": rowOf(func(k *fixture) {
		const canary = "canary-77ab03-flag"
		req := publishTo(k, "nobody")
		req.VolumeCapability.GetMount().MountFlags = []string{canary}
		_, err := k.controller.ControllerPublishVolume(k.ctx, req)
		require.NotContains(k.t, err.Error(), canary)
		v := k.volume()
		require.NoError(k.t, k.env.CO.Publish(k.ctx, v, "n1"))
		k.cleanUpWith(func(ctx context.Context) error { return k.env.CO.Unpublish(ctx, v) })
		stage := k.env.CO.StageRequest(v)
		stage.StagingTargetPath = k.env.Path("staging")
		require.NoError(k.t, os.MkdirAll(stage.GetStagingTargetPath(), 0o750))
		stage.VolumeCapability.GetMount().MountFlags = []string{canary}
		_, err = k.env.Node(k.t).NodeStageVolume(k.ctx, stage)
		if err == nil {
			k.t.Error("a mount flag that no filesystem knows was taken")
		} else {
			require.NotContains(k.t, err.Error(), canary)
		}
		k.untilOK(func() error {
			_, err := k.env.Node(k.t).NodeUnstageVolume(k.ctx, &csi.NodeUnstageVolumeRequest{VolumeId: v.ID, StagingTargetPath: stage.GetStagingTargetPath()})
			return err
		})
		require.NoError(k.t, ignoreCode(ignoreMissing(os.Remove(stage.GetStagingTargetPath())), codes.OK))
		k.requireNotOnDisk(canary)
	}),
}

func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

func publishTo(k *fixture, node string) *csi.ControllerPublishVolumeRequest {
	v := k.volume()
	return &csi.ControllerPublishVolumeRequest{VolumeId: v.ID, NodeId: node, VolumeCapability: v.Capability()}
}

// eachFieldOfSize calls every method with that many bytes in each of its plain string fields in turn.
func (k *fixture) eachFieldOfSize(n int, see func(c methodCase, field string, err error)) {
	k.t.Helper()
	conns := map[string]*grpc.ClientConn{"c1": k.env.Conn(k.t, "c1"), "n1": k.env.Conn(k.t, "n1")}
	for _, c := range methodCases(k.env) {
		fields := c.req.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			if _, own := ownLimit[string(f.Name())]; own || f.Kind() != protoreflect.StringKind || f.IsList() || n <= 128 && f.Name() == "name" {
				continue
			}
			req := proto.Clone(c.req)
			req.ProtoReflect().Set(f, protoreflect.ValueOfString(strings.Repeat("x", n)))
			_, _, err := k.callMethod(conns[c.process], c.method, req)
			see(c, string(f.Name()), err)
		}
	}
}

// withSecrets calls every method that takes secrets, with these.
func (k *fixture) withSecrets(secrets map[string]string, see func(method string, err error)) {
	k.t.Helper()
	n := 0
	for _, c := range methodCases(k.env) {
		f := c.req.ProtoReflect().Descriptor().Fields().ByName("secrets")
		if f == nil || c.method == "Controller/CreateVolume" {
			continue
		}
		req := proto.Clone(c.req)
		into := req.ProtoReflect().Mutable(f).Map()
		for key, value := range secrets {
			into.Set(protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOfString(value))
		}
		_, _, err := k.callMethod(k.env.Conn(k.t, c.process), c.method, req)
		see(c.method, err)
		n++
	}
	require.Greater(k.t, n, 8, "methods that take secrets")
}

// requireSecretsHidden sends a secret to every method, well and badly, and looks for it everywhere.
func (k *fixture) requireSecretsHidden(canary string) {
	for _, key := range []string{"password", "not allowed"} {
		k.withSecrets(map[string]string{key: canary}, func(method string, err error) {
			require.NotContains(k.t, status.Convert(err).Message(), canary, method)
		})
	}
	req := harness.Spec{Name: k.env.Name("vol"), Node: "n1"}.CreateRequest()
	req.Secrets = map[string]string{"password": canary}
	res, err := k.controller.CreateVolume(k.ctx, req)
	require.NoError(k.t, err)
	k.deleteVolumeLater(res.GetVolume().GetVolumeId())
	k.requireNotOnDisk(canary)
}

// requireNotOnDisk reads all that the cluster keeps, but for the volumes themselves: logs, Raft's log,
// snapshots, the journal, hosts' records.
func (k *fixture) requireNotOnDisk(canary string) {
	k.t.Helper()
	read := 0
	require.NoError(k.t, filepath.WalkDir(k.env.Cluster.Base, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return ignoreMissing(err)
		}
		if d.IsDir() && strings.HasPrefix(path, k.env.Cluster.Mounts()) {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() || strings.HasSuffix(path, ".img") {
			return nil
		}
		info, err := d.Info()
		if err != nil || info.Size() > 80<<20 {
			return ignoreMissing(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return ignoreMissing(err)
		}
		read++
		require.NotContains(k.t, string(raw), canary, "it is in %s", path)
		return nil
	}))
	require.Greater(k.t, read, 10, "files of the cluster")
}

// rowEachAnswer makes the common calls and passes every answer to see.
func rowEachAnswer(see func(t *testing.T, method string, m protoreflect.Message)) rowTest {
	return rowOf(func(k *fixture) {
		var mu sync.Mutex
		seen := map[string]bool{}
		spy := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, reply, cc, opts...)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				seen[method] = true
				see(k.t, method, reply.(proto.Message).ProtoReflect())
			}
			return err
		}
		k.fullLifecycle(k.dialWithInterceptor("c1", spy), k.dialWithInterceptor("n1", spy))
		require.Greater(k.t, len(seen), 20, "methods that were answered")
	})
}

func (k *fixture) dialWithInterceptor(id string, spy grpc.UnaryClientInterceptor) *grpc.ClientConn {
	l, err := k.env.Cluster.Layout()
	require.NoError(k.t, err)
	conn, err := grpc.NewClient(endpointPath(l, id), grpc.WithAuthority("localhost"), grpc.WithUnaryInterceptor(spy),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(k.t, err)
	k.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// fullLifecycle runs the lifecycle of a volume with every call that there is.
func (k *fixture) fullLifecycle(controller, node *grpc.ClientConn) {
	ctl, n, groups := csi.NewControllerClient(controller), csi.NewNodeClient(node), csi.NewGroupControllerClient(controller)
	must := func(_ any, err error) { k.t.Helper(); require.NoError(k.t, err) }
	for _, conn := range []*grpc.ClientConn{controller, node} {
		id := csi.NewIdentityClient(conn)
		must(id.GetPluginInfo(k.ctx, &csi.GetPluginInfoRequest{}))
		must(id.GetPluginCapabilities(k.ctx, &csi.GetPluginCapabilitiesRequest{}))
		must(id.Probe(k.ctx, &csi.ProbeRequest{}))
	}
	must(n.NodeGetInfo(k.ctx, &csi.NodeGetInfoRequest{}))
	must(n.NodeGetCapabilities(k.ctx, &csi.NodeGetCapabilitiesRequest{}))
	must(ctl.ControllerGetCapabilities(k.ctx, &csi.ControllerGetCapabilitiesRequest{}))
	must(groups.GroupControllerGetCapabilities(k.ctx, &csi.GroupControllerGetCapabilitiesRequest{}))
	must(ctl.GetCapacity(k.ctx, &csi.GetCapacityRequest{}))

	req := harness.Spec{Name: k.env.Name("vol"), Node: "n1"}.CreateRequest()
	made, err := ctl.CreateVolume(k.ctx, req)
	require.NoError(k.t, err)
	v := &harness.Volume{ID: made.GetVolume().GetVolumeId(), FSType: "ext4"}
	k.deleteVolumeLater(v.ID)
	must(ctl.ControllerModifyVolume(k.ctx, modification(v.ID, "iopsLimit", "5000")))
	must(ctl.ControllerModifyVolume(k.ctx, modification(v.ID, "iopsLimit", "0")))
	must(ctl.ControllerPublishVolume(k.ctx, &csi.ControllerPublishVolumeRequest{VolumeId: v.ID, NodeId: "n1", VolumeCapability: v.Capability()}))
	k.mountUntilEnd(v)
	must(n.NodeStageVolume(k.ctx, k.env.CO.StageRequest(v)))
	must(n.NodePublishVolume(k.ctx, k.env.CO.TargetRequest(v)))
	must(n.NodeGetVolumeStats(k.ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: v.ID, VolumePath: v.Target}))
	must(ctl.ListVolumes(k.ctx, &csi.ListVolumesRequest{}))
	must(ctl.ControllerGetVolume(k.ctx, &csi.ControllerGetVolumeRequest{VolumeId: v.ID}))
	must(ctl.ValidateVolumeCapabilities(k.ctx, &csi.ValidateVolumeCapabilitiesRequest{VolumeId: v.ID, VolumeCapabilities: req.GetVolumeCapabilities()}))
	must(ctl.ControllerExpandVolume(k.ctx, &csi.ControllerExpandVolumeRequest{VolumeId: v.ID, CapacityRange: &csi.CapacityRange{RequiredBytes: 32 * harness.Mi}}))
	snapshot, err := ctl.CreateSnapshot(k.ctx, &csi.CreateSnapshotRequest{Name: "of-" + v.ID, SourceVolumeId: v.ID})
	require.NoError(k.t, err)
	k.deleteSnapshotLater(snapshot.GetSnapshot().GetSnapshotId())
	must(ctl.ListSnapshots(k.ctx, &csi.ListSnapshotsRequest{}))
	must(ctl.GetSnapshot(k.ctx, &csi.GetSnapshotRequest{SnapshotId: snapshot.GetSnapshot().GetSnapshotId()}))
	g, err := groups.CreateVolumeGroupSnapshot(k.ctx, &csi.CreateVolumeGroupSnapshotRequest{Name: "of-" + v.ID, SourceVolumeIds: []string{v.ID}})
	require.NoError(k.t, err)
	k.deleteGroupLater(g.GetGroupSnapshot())
	must(groups.GetVolumeGroupSnapshot(k.ctx, &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: g.GetGroupSnapshot().GetGroupSnapshotId(), SnapshotIds: memberIDs(g.GetGroupSnapshot())}))
}

// eachField passes every field of a message that is set, and of nested messages, to see.
func eachField(m protoreflect.Message, see func(protoreflect.FieldDescriptor, protoreflect.Value)) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		see(f, v)
		switch {
		case f.IsMap() || f.Kind() != protoreflect.MessageKind:
		case f.IsList():
			for i := range v.List().Len() {
				eachField(v.List().Get(i).Message(), see)
			}
		default:
			eachField(v.Message(), see)
		}
		return true
	})
}

// requiredFields are the REQUIRED fields of what the driver answers.
var requiredFields = map[protoreflect.Name][]protoreflect.Name{
	"GetPluginInfoResponse": {"name", "vendor_version"}, "NodeGetInfoResponse": {"node_id"}, "CreateVolumeResponse": {"volume"},
	"Volume": {"volume_id"}, "Snapshot": {"snapshot_id", "source_volume_id", "creation_time", "ready_to_use"},
	"CreateSnapshotResponse": {"snapshot"}, "GetSnapshotResponse": {"snapshot"}, "VolumeGroupSnapshot": {"group_snapshot_id", "snapshots", "creation_time"},
	"CreateVolumeGroupSnapshotResponse": {"group_snapshot"}, "GetVolumeGroupSnapshotResponse": {"group_snapshot"},
	"ControllerGetVolumeResponse": {"volume", "status"}, "ControllerExpandVolumeResponse": {"capacity_bytes"}, "NodeGetVolumeStatsResponse": {"usage"},
	"VolumeUsage": {"total", "unit"}, "VolumeCondition": {"message"}, "Confirmed": {"volume_capabilities"},
}

func requireFilled(t *testing.T, method string, m protoreflect.Message) {
	for _, field := range requiredFields[m.Descriptor().Name()] {
		require.True(t, m.Has(m.Descriptor().Fields().ByName(field)), "%s answers a %s without %s", method, m.Descriptor().Name(), field)
	}
}
