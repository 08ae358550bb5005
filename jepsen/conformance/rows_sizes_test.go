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
	"CSI-GEN-Size-01": with(func(k *kit) {
		k.sized(129, func(c aCall, field string, err error) {
			k.requireCode(c.method+" with 129 bytes of "+field, err, codes.InvalidArgument)
		})
	}),
	"CSI-GEN-Size-02": with(func(k *kit) {
		name := strings.Repeat("n", 128-len("128-")) + "128-"
		v := k.create(harness.Spec{Name: name, Node: "n1"})
		res, err := k.ctl.CreateSnapshot(k.ctx, &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: v.ID})
		require.NoError(k.t, err)
		k.dropSnapshot(res.GetSnapshot().GetSnapshotId())
		k.sized(128, func(c aCall, field string, err error) {
			if strings.HasSuffix(field, "_id") {
				k.requireCode(c.method+" with 128 bytes of "+field, err, codes.NotFound, codes.OK)
			}
		})
	}),
	"CSI-GEN-Size-03": with(func(k *kit) {
		k.create(harness.Spec{Name: strings.Repeat("é", 64), Node: "n1"})
		_, err := k.ctl.CreateVolume(k.ctx, harness.Spec{Name: strings.Repeat("é", 65)}.CreateRequest())
		refused(k.t, err, codes.InvalidArgument)
	}),
	"CSI-GEN-Size-04": with(func(k *kit) {
		v := k.volume()
		fill := func(n int) map[string]string { return map[string]string{"k": strings.Repeat("v", n-1)} }
		_, err := k.ctl.DeleteVolume(k.ctx, &csi.DeleteVolumeRequest{VolumeId: unknownVolumeID, Secrets: fill(4096)})
		require.NoError(k.t, err)
		publish := func(secrets, context map[string]string) error {
			_, err := k.ctl.ControllerPublishVolume(k.ctx, &csi.ControllerPublishVolumeRequest{VolumeId: v.ID, NodeId: "n1",
				VolumeCapability: v.Capability(), Secrets: secrets, VolumeContext: context})
			return err
		}
		require.NoError(k.t, publish(fill(4096), nil))
		k.after(func(ctx context.Context) error { v.Node = "n1"; return k.w.CO.Unpublish(ctx, v) })
		refused(k.t, publish(fill(4097), nil), codes.InvalidArgument)
		refused(k.t, publish(nil, fill(4097)), codes.InvalidArgument)
		for _, tooBig := range []func(*csi.CreateVolumeRequest){
			func(r *csi.CreateVolumeRequest) {
				r.Parameters = map[string]string{"csi.storage.k8s.io/x": strings.Repeat("v", 4097)}
			},
			func(r *csi.CreateVolumeRequest) { r.Secrets = fill(4097) },
			func(r *csi.CreateVolumeRequest) {
				r.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{{Segments: fill(4097)}}}
			},
		} {
			req := harness.Spec{Name: k.w.Name("vol")}.CreateRequest()
			tooBig(req)
			_, err := k.ctl.CreateVolume(k.ctx, req)
			refused(k.t, err, codes.InvalidArgument)
		}
	}),
	"CSI-GEN-Size-07": with(func(k *kit) {
		_, err := k.ctl.ControllerPublishVolume(k.ctx, publishTo(k, strings.Repeat("n", 256)))
		refused(k.t, err, codes.NotFound)
		_, err = k.ctl.ControllerPublishVolume(k.ctx, publishTo(k, strings.Repeat("n", 257)))
		refused(k.t, err, codes.InvalidArgument)
		long := k.w.Path("long") + strings.Repeat("/"+strings.Repeat("d", 99), 10)
		_, err = k.w.Node(k.t).NodeUnpublishVolume(k.ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: unknownVolumeID, TargetPath: long})
		require.NoError(k.t, but(err, codes.NotFound))
		flags := func(flags ...string) error {
			req := publishTo(k, "nobody")
			req.VolumeCapability.GetMount().MountFlags = flags
			_, err := k.ctl.ControllerPublishVolume(k.ctx, req)
			return err
		}
		refused(k.t, flags(longFlags()...), codes.NotFound)
		refused(k.t, flags(append(longFlags(), "ro")...), codes.InvalidArgument)
		refused(k.t, flags(strings.Repeat("f", 4097)), codes.InvalidArgument)
	}),
	"CSI-GEN-Size-05": watched(func(t *testing.T, method string, m protoreflect.Message) {
		walk(m, func(f protoreflect.FieldDescriptor, v protoreflect.Value) {
			if f.Kind() == protoreflect.StringKind && !f.IsMap() && !f.IsList() {
				limit := 128
				if f.Name() == "node_id" {
					limit = 256
				}
				require.LessOrEqual(t, len(v.String()), limit, "%s answers %s", method, f.Name())
			}
		})
	}),
	"CSI-GEN-Size-06": watched(func(t *testing.T, method string, m protoreflect.Message) {
		walk(m, func(f protoreflect.FieldDescriptor, v protoreflect.Value) {
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
	"CSI-GEN-Field-04": watched(func(t *testing.T, method string, m protoreflect.Message) {
		requireFilled(t, method, m)
		walk(m, func(f protoreflect.FieldDescriptor, v protoreflect.Value) {
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

	"CSI-GEN-Secrets-01": with(func(k *kit) {
		for _, key := range []string{"a b", "a/b", "ключ", ""} {
			k.withSecrets(map[string]string{key: "v"}, func(method string, err error) {
				k.requireCode(method+" with the secret "+key, err, codes.InvalidArgument)
			})
		}
		k.withSecrets(map[string]string{"Az-_.09": "v"}, func(method string, err error) {
			k.requireCode(method, err, codes.OK, codes.NotFound)
		})
	}),
	"CSI-GEN-Secrets-02": with(func(k *kit) {
		for _, value := range []string{base64.StdEncoding.EncodeToString([]byte{0, 1, 255}), "", "line\nbreak"} {
			k.withSecrets(map[string]string{"k": value}, func(method string, err error) {
				k.requireCode(method, err, codes.OK, codes.NotFound)
			})
		}
	}),
	"CSI-GEN-Secrets-05": with(func(k *kit) {
		all := map[string]string{"user": "u", "password": "p", "key-of_another.rpc": "x"}
		k.withSecrets(all, func(method string, err error) { k.requireCode(method, err, codes.OK, codes.NotFound) })
		req := harness.Spec{Name: k.w.Name("vol"), Node: "n1"}.CreateRequest()
		req.Secrets = all
		res, err := k.ctl.CreateVolume(k.ctx, req)
		require.NoError(k.t, err)
		k.dropVolume(res.GetVolume().GetVolumeId())
	}),
	"CSI-GEN-Secrets-06": with(func(k *kit) { k.secretsStay("canary-8f1d4e-secret") }),
	"CSI-OPS-Sec-03":     with(func(k *kit) { k.secretsStay("canary-2b7c90-sensitive") }),
	"CSI-OPS-Oper-04":    with(func(k *kit) { k.secretsStay("canary-5a6e11-logged") }),
	"CSI-GEN-Secrets-07": with(func(k *kit) {
		const canary = "canary-77ab03-flag"
		req := publishTo(k, "nobody")
		req.VolumeCapability.GetMount().MountFlags = []string{canary}
		_, err := k.ctl.ControllerPublishVolume(k.ctx, req)
		require.NotContains(k.t, err.Error(), canary)
		v := k.volume()
		require.NoError(k.t, k.w.CO.Publish(k.ctx, v, "n1"))
		k.after(func(ctx context.Context) error { return k.w.CO.Unpublish(ctx, v) })
		stage := k.w.CO.StageRequest(v)
		stage.StagingTargetPath = k.w.Path("staging")
		require.NoError(k.t, os.MkdirAll(stage.GetStagingTargetPath(), 0o750))
		stage.VolumeCapability.GetMount().MountFlags = []string{canary}
		_, err = k.w.Node(k.t).NodeStageVolume(k.ctx, stage)
		if err == nil {
			k.t.Error("a mount flag that no filesystem knows was taken")
		} else {
			require.NotContains(k.t, err.Error(), canary)
		}
		k.done(func() error {
			_, err := k.w.Node(k.t).NodeUnstageVolume(k.ctx, &csi.NodeUnstageVolumeRequest{VolumeId: v.ID, StagingTargetPath: stage.GetStagingTargetPath()})
			return err
		})
		require.NoError(k.t, but(ignoreMissing(os.Remove(stage.GetStagingTargetPath())), codes.OK))
		k.requireNowhere(canary)
	}),
}

func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

func publishTo(k *kit, node string) *csi.ControllerPublishVolumeRequest {
	v := k.volume()
	return &csi.ControllerPublishVolumeRequest{VolumeId: v.ID, NodeId: node, VolumeCapability: v.Capability()}
}

// sized calls every method with so many bytes in each of its plain string fields in turn.
func (k *kit) sized(n int, see func(c aCall, field string, err error)) {
	k.t.Helper()
	conns := map[string]*grpc.ClientConn{"c1": k.w.Conn(k.t, "c1"), "n1": k.w.Conn(k.t, "n1")}
	for _, c := range calls(k.w) {
		fields := c.req.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			if _, own := ownLimit[string(f.Name())]; own || f.Kind() != protoreflect.StringKind || f.IsList() || n <= 128 && f.Name() == "name" {
				continue
			}
			req := proto.Clone(c.req)
			req.ProtoReflect().Set(f, protoreflect.ValueOfString(strings.Repeat("x", n)))
			_, _, err := k.do(conns[c.at], c.method, req)
			see(c, string(f.Name()), err)
		}
	}
}

// withSecrets calls every method that takes secrets, with these.
func (k *kit) withSecrets(secrets map[string]string, see func(method string, err error)) {
	k.t.Helper()
	n := 0
	for _, c := range calls(k.w) {
		f := c.req.ProtoReflect().Descriptor().Fields().ByName("secrets")
		if f == nil || c.method == "Controller/CreateVolume" {
			continue
		}
		req := proto.Clone(c.req)
		into := req.ProtoReflect().Mutable(f).Map()
		for key, value := range secrets {
			into.Set(protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOfString(value))
		}
		_, _, err := k.do(k.w.Conn(k.t, c.at), c.method, req)
		see(c.method, err)
		n++
	}
	require.Greater(k.t, n, 8, "methods that take secrets")
}

// secretsStay sends a secret to every method, well and badly, and looks for it everywhere.
func (k *kit) secretsStay(canary string) {
	for _, key := range []string{"password", "not allowed"} {
		k.withSecrets(map[string]string{key: canary}, func(method string, err error) {
			require.NotContains(k.t, status.Convert(err).Message(), canary, method)
		})
	}
	req := harness.Spec{Name: k.w.Name("vol"), Node: "n1"}.CreateRequest()
	req.Secrets = map[string]string{"password": canary}
	res, err := k.ctl.CreateVolume(k.ctx, req)
	require.NoError(k.t, err)
	k.dropVolume(res.GetVolume().GetVolumeId())
	k.requireNowhere(canary)
}

// requireNowhere reads all that the cluster keeps, but for the volumes themselves: logs, Raft's log,
// snapshots, the journal, hosts' records.
func (k *kit) requireNowhere(canary string) {
	k.t.Helper()
	read := 0
	require.NoError(k.t, filepath.WalkDir(k.w.Cluster.Base, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return ignoreMissing(err)
		}
		if d.IsDir() && strings.HasPrefix(path, k.w.Cluster.Mounts()) {
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

// watched goes through the common calls and shows every message that was answered.
func watched(see func(t *testing.T, method string, m protoreflect.Message)) rowTest {
	return with(func(k *kit) {
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
		k.everyday(k.spied("c1", spy), k.spied("n1", spy))
		require.Greater(k.t, len(seen), 20, "methods that were answered")
	})
}

func (k *kit) spied(id string, spy grpc.UnaryClientInterceptor) *grpc.ClientConn {
	l, err := k.w.Cluster.Layout()
	require.NoError(k.t, err)
	conn, err := grpc.NewClient(endpointOf(l, id), grpc.WithAuthority("localhost"), grpc.WithUnaryInterceptor(spy),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(k.t, err)
	k.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// everyday is a volume's life with all that can be asked of it.
func (k *kit) everyday(controller, node *grpc.ClientConn) {
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

	req := harness.Spec{Name: k.w.Name("vol"), Node: "n1"}.CreateRequest()
	made, err := ctl.CreateVolume(k.ctx, req)
	require.NoError(k.t, err)
	v := &harness.Volume{ID: made.GetVolume().GetVolumeId(), FSType: "ext4"}
	k.dropVolume(v.ID)
	must(ctl.ControllerModifyVolume(k.ctx, modification(v.ID, "iopsLimit", "5000")))
	must(ctl.ControllerModifyVolume(k.ctx, modification(v.ID, "iopsLimit", "0")))
	must(ctl.ControllerPublishVolume(k.ctx, &csi.ControllerPublishVolumeRequest{VolumeId: v.ID, NodeId: "n1", VolumeCapability: v.Capability()}))
	k.up(v)
	must(n.NodeStageVolume(k.ctx, k.w.CO.StageRequest(v)))
	must(n.NodePublishVolume(k.ctx, k.w.CO.BindRequest(v)))
	must(n.NodeGetVolumeStats(k.ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: v.ID, VolumePath: v.Target}))
	must(ctl.ListVolumes(k.ctx, &csi.ListVolumesRequest{}))
	must(ctl.ControllerGetVolume(k.ctx, &csi.ControllerGetVolumeRequest{VolumeId: v.ID}))
	must(ctl.ValidateVolumeCapabilities(k.ctx, &csi.ValidateVolumeCapabilitiesRequest{VolumeId: v.ID, VolumeCapabilities: req.GetVolumeCapabilities()}))
	must(ctl.ControllerExpandVolume(k.ctx, &csi.ControllerExpandVolumeRequest{VolumeId: v.ID, CapacityRange: &csi.CapacityRange{RequiredBytes: 32 * harness.Mi}}))
	cut, err := ctl.CreateSnapshot(k.ctx, &csi.CreateSnapshotRequest{Name: "of-" + v.ID, SourceVolumeId: v.ID})
	require.NoError(k.t, err)
	k.dropSnapshot(cut.GetSnapshot().GetSnapshotId())
	must(ctl.ListSnapshots(k.ctx, &csi.ListSnapshotsRequest{}))
	must(ctl.GetSnapshot(k.ctx, &csi.GetSnapshotRequest{SnapshotId: cut.GetSnapshot().GetSnapshotId()}))
	g, err := groups.CreateVolumeGroupSnapshot(k.ctx, &csi.CreateVolumeGroupSnapshotRequest{Name: "of-" + v.ID, SourceVolumeIds: []string{v.ID}})
	require.NoError(k.t, err)
	k.dropGroup(g.GetGroupSnapshot())
	must(groups.GetVolumeGroupSnapshot(k.ctx, &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: g.GetGroupSnapshot().GetGroupSnapshotId(), SnapshotIds: memberIDs(g.GetGroupSnapshot())}))
}

// walk shows every field of a message that is set, and of those inside it.
func walk(m protoreflect.Message, see func(protoreflect.FieldDescriptor, protoreflect.Value)) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		see(f, v)
		switch {
		case f.IsMap() || f.Kind() != protoreflect.MessageKind:
		case f.IsList():
			for i := range v.List().Len() {
				walk(v.List().Get(i).Message(), see)
			}
		default:
			walk(v.Message(), see)
		}
		return true
	})
}

// owed are the REQUIRED fields of what the driver answers.
var owed = map[protoreflect.Name][]protoreflect.Name{
	"GetPluginInfoResponse": {"name", "vendor_version"}, "NodeGetInfoResponse": {"node_id"}, "CreateVolumeResponse": {"volume"},
	"Volume": {"volume_id"}, "Snapshot": {"snapshot_id", "source_volume_id", "creation_time", "ready_to_use"},
	"CreateSnapshotResponse": {"snapshot"}, "GetSnapshotResponse": {"snapshot"}, "VolumeGroupSnapshot": {"group_snapshot_id", "snapshots", "creation_time"},
	"CreateVolumeGroupSnapshotResponse": {"group_snapshot"}, "GetVolumeGroupSnapshotResponse": {"group_snapshot"},
	"ControllerGetVolumeResponse": {"volume", "status"}, "ControllerExpandVolumeResponse": {"capacity_bytes"}, "NodeGetVolumeStatsResponse": {"usage"},
	"VolumeUsage": {"total", "unit"}, "VolumeCondition": {"message"}, "Confirmed": {"volume_capabilities"},
}

func requireFilled(t *testing.T, method string, m protoreflect.Message) {
	for _, field := range owed[m.Descriptor().Name()] {
		require.True(t, m.Has(m.Descriptor().Fields().ByName(field)), "%s answers a %s without %s", method, m.Descriptor().Name(), field)
	}
}
