package conformance

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

var generalRows = map[string]rowTest{
	"CSI-GEN-Error-01": rowOf(func(k *fixture) {
		k.eachFailure(func(method string, res proto.Message, _ metadata.MD, err error) {
			require.Error(k.t, err, method)
			_, ok := status.FromError(err)
			require.True(k.t, ok, method)
			require.True(k.t, proto.Equal(res, res.ProtoReflect().New().Interface()), "%s answered %v beside its error", method, res)
		})
	}),
	"CSI-GEN-Error-02": rowOf(func(k *fixture) {
		canonical := func(method string, err error) {
			code := status.Code(err)
			require.True(k.t, code <= codes.Unauthenticated && code != codes.Unknown, "%s: code %d", method, code)
		}
		k.eachFailure(func(method string, _ proto.Message, _ metadata.MD, err error) {
			require.NotEqual(k.t, codes.OK, status.Code(err), method)
			canonical(method, err)
		})
		random := rand.New(rand.NewPCG(1, 2))
		for _, c := range methodCases(k.env) {
			if c.method == "Controller/CreateVolume" {
				continue // what is random here may well be made
			}
			_, _, err := k.callMethod(k.env.Conn(k.t, c.process), c.method, randomized(c.req, random))
			canonical(c.method, err)
		}
	}),
	"CSI-GEN-Error-03": rowOf(func(k *fixture) {
		k.eachFailure(func(method string, _ proto.Message, _ metadata.MD, err error) {
			text := status.Convert(err).Message()
			require.NotEmpty(k.t, text, method)
			require.False(k.t, strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }), "%s: %q", method, text)
		})
	}),
	"CSI-GEN-Error-04": rowOf(func(k *fixture) {
		k.eachFailure(func(method string, _ proto.Message, trailer metadata.MD, err error) {
			require.Empty(k.t, status.Convert(err).Details(), method)
			require.Empty(k.t, trailer.Get("grpc-status-details-bin"), method)
		})
	}),
	"CSI-GEN-Error-05": rowOf(func(k *fixture) {
		k.eachMissingField(func(c methodCase, field string, err error) {
			k.requireCode(c.method+" without "+field, err, codes.InvalidArgument)
			require.Contains(k.t, status.Convert(err).Message(), strings.SplitN(field, "_", 2)[0], "%s without %s does not name it", c.method, field)
		})
	}),
	"CSI-GEN-Field-01": rowOf(func(k *fixture) {
		k.eachMissingField(func(c methodCase, field string, err error) {
			k.requireCode(c.method+" without "+field, err, codes.InvalidArgument)
		})
	}),
	"CSI-GEN-Error-12": rowOf(func(k *fixture) {
		for _, c := range methodCases(k.env) {
			_, _, err := k.callMethod(k.env.Conn(k.t, c.process), c.method, c.req)
			if c.method == "Controller/CreateVolume" {
				k.deleteByName("x")
				require.NoError(k.t, err)
				continue
			}
			k.requireCode(c.method+" of what is unknown", err, codes.NotFound, codes.OK)
			for _, field := range c.checkedLater { // csi-sanity's order: what is unknown is looked up first
				_, _, err := k.callMethod(k.env.Conn(k.t, c.process), c.method, withoutField(c.req, field))
				k.requireCode(c.method+" of what is unknown, without "+field, err, codes.NotFound, codes.OK)
			}
		}
		k.eachMissingField(func(c methodCase, field string, err error) {
			k.requireCode(c.method+" without "+field, err, codes.InvalidArgument)
		})
	}),
	"CSI-GEN-Error-06": rowOf(func(k *fixture) {
		valid := func() *csi.CreateVolumeRequest { return harness.Spec{Name: k.env.Name("vol")}.CreateRequest() }
		for what, spoil := range map[string]func(*csi.CreateVolumeRequest){
			"an unknown access mode": func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0].AccessMode.Mode = 99 },
			"a negative size":        func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = -1 },
			"a banned character":     func(r *csi.CreateVolumeRequest) { r.Name += "\x01" },
			"a name too long":        func(r *csi.CreateVolumeRequest) { r.Name = strings.Repeat("n", 129) },
			"an unknown parameter":   func(r *csi.CreateVolumeRequest) { r.Parameters = map[string]string{"colour": "blue"} },
		} {
			req := valid()
			spoil(req)
			_, err := k.controller.CreateVolume(k.ctx, req)
			k.requireCode(what, err, codes.InvalidArgument)
		}
	}),
	"CSI-GEN-Error-08": rowOf(func(k *fixture) {
		v := k.volume()
		inParallel(12, func(i int) {
			var err error
			switch i % 3 {
			case 0:
				_, err = k.controller.ControllerPublishVolume(k.ctx, &csi.ControllerPublishVolumeRequest{VolumeId: v.ID, NodeId: "n1", VolumeCapability: v.Capability()})
			case 1:
				_, err = k.controller.ControllerUnpublishVolume(k.ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: v.ID, NodeId: "n1"})
			default:
				_, err = k.controller.CreateSnapshot(k.ctx, &csi.CreateSnapshotRequest{Name: "held-" + v.ID, SourceVolumeId: v.ID})
			}
			if code := status.Code(err); code != codes.OK && code != codes.Aborted {
				k.t.Errorf("call %d beside others: %v", i, err)
			}
		})
		k.untilOK(func() error { return k.unpublish(v.ID, "n1") })
		k.createSnapshotFrom(&csi.CreateSnapshotRequest{Name: "held-" + v.ID, SourceVolumeId: v.ID})
	}),
	"CSI-GEN-Error-09": rowOf(func(k *fixture) {
		for at, services := range map[string][]string{"c1": {"Node"}, "n1": ofControllers[1:]} {
			for method, req := range methodsOf(k.t, services...) {
				_, _, err := k.callMethod(k.env.Conn(k.t, at), method, req)
				k.requireCode(method+" at "+at, err, codes.Unimplemented)
			}
		}
		off := []string{"ListVolumes", "GetCapacity", "CreateSnapshot", "DeleteSnapshot", "ListSnapshots", "GetSnapshot",
			"ControllerExpandVolume", "ControllerGetVolume", "ControllerModifyVolume"}
		for _, c := range off {
			_, _, err := k.callMethod(k.disabledConn("c1"), "Controller/"+c, methodsOf(k.t, "Controller")["Controller/"+c])
			k.requireCode(c+" that is turned off", err, codes.Unimplemented)
		}
	}),
	"CSI-GEN-Error-11": rowOf(func(k *fixture) {
		for at, services := range map[string][]string{"c1": ofControllers, "n1": ofNodes} {
			for method, req := range methodsOf(k.t, services...) {
				_, _, err := k.callMethod(k.env.Conn(k.t, at), method, req)
				k.requireCode(method, err, codes.OK, codes.InvalidArgument)
			}
		}
		for method, req := range methodsOf(k.t, "Controller") {
			_, _, err := k.callMethod(k.disabledConn("c1"), method, req)
			require.NotContains(k.t, status.Convert(err).Message(), "unknown method", method)
		}
	}),
	"CSI-GEN-Error-13": rowOf(errorTableCases),

	"CSI-GEN-Field-02": rowOf(func(k *fixture) {
		for method, req := range map[string]proto.Message{
			"Controller/CreateVolume":                   &csi.CreateVolumeRequest{Name: "x", VolumeCapabilities: []*csi.VolumeCapability{}},
			"Controller/ValidateVolumeCapabilities":     &csi.ValidateVolumeCapabilitiesRequest{VolumeId: unknownVolumeID, VolumeCapabilities: []*csi.VolumeCapability{}},
			"Controller/ControllerModifyVolume":         &csi.ControllerModifyVolumeRequest{VolumeId: unknownVolumeID, MutableParameters: map[string]string{}},
			"GroupController/CreateVolumeGroupSnapshot": &csi.CreateVolumeGroupSnapshotRequest{Name: "x", SourceVolumeIds: []string{}},
			"GroupController/GetVolumeGroupSnapshot":    &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: k.group(1).GetGroupSnapshotId(), SnapshotIds: []string{}},
		} {
			_, _, err := k.callMethod(k.env.Conn(k.t, "c1"), method, req)
			k.requireCode(method+" with an empty list", err, codes.InvalidArgument)
		}
	}),
	"CSI-GEN-Field-03": rowOf(func(k *fixture) {
		unset := harness.Spec{Name: k.env.Name("vol"), Node: "n1"}.CreateRequest()
		unset.CapacityRange = &csi.CapacityRange{RequiredBytes: 16 * harness.Mi}
		first, err := k.controller.CreateVolume(k.ctx, unset)
		require.NoError(k.t, err)
		k.deleteVolumeLater(first.GetVolume().GetVolumeId())
		zero := proto.Clone(unset).(*csi.CreateVolumeRequest)
		zero.CapacityRange.LimitBytes = 0
		zero.Parameters, zero.Secrets = map[string]string{}, map[string]string{}
		zero.MutableParameters = map[string]string{}
		again, err := k.controller.CreateVolume(k.ctx, zero)
		require.NoError(k.t, err)
		requireSame(k, first, again)
	}),
	"CSI-GEN-Field-05": rowOf(func(k *fixture) {
		req := harness.Spec{Name: k.env.Name("vol"), Node: "n1"}.CreateRequest()
		first, err := k.controller.CreateVolume(k.ctx, req)
		require.NoError(k.t, err)
		k.deleteVolumeLater(first.GetVolume().GetVolumeId())
		newer := proto.Clone(req).(*csi.CreateVolumeRequest)
		newer.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 4321, protowire.BytesType), "of a later version"))
		again, err := k.controller.CreateVolume(k.ctx, newer)
		require.NoError(k.t, err)
		requireSame(k, first, again)
	}),

	"CSI-GEN-Conc-01": rowOf(func(k *fixture) {
		req := harness.Spec{Name: k.env.Name("vol"), Node: "n1"}.CreateRequest()
		ids := k.parallel(32, func(ctl csi.ControllerClient) (string, error) {
			res, err := ctl.CreateVolume(k.ctx, req)
			return res.GetVolume().GetVolumeId(), err
		})
		id := k.requireOneID(ids)
		k.deleteVolumeLater(id)
		one := k.requireOneID(k.parallel(32, func(ctl csi.ControllerClient) (string, error) {
			res, err := ctl.CreateSnapshot(k.ctx, &csi.CreateSnapshotRequest{Name: "of-" + id, SourceVolumeId: id})
			return res.GetSnapshot().GetSnapshotId(), err
		}))
		k.deleteSnapshotLater(one)
		require.Equal(k.t, []string{one}, k.snapshotsOf([]string{id}))
	}),
	"CSI-GEN-Conc-02": rowOf(func(k *fixture) {
		req := harness.Spec{Name: k.env.Name("vol"), Node: "n1"}.CreateRequest()
		for wait := time.Millisecond; wait < 20*time.Millisecond; wait *= 2 {
			brief, cancel := context.WithTimeout(k.ctx, wait)
			_, _ = k.controller.CreateVolume(brief, req) // cancelled at some point
			cancel()
		}
		before, err := k.env.Cluster.Images("n1")
		require.NoError(k.t, err)
		v, err := k.env.CO.Create(k.ctx, harness.Spec{Name: req.GetName(), Node: "n1"})
		require.NoError(k.t, err)
		k.deleteVolumeLater(v.ID)
		for _, image := range before {
			_, err := k.controller.ControllerGetVolume(k.ctx, &csi.ControllerGetVolumeRequest{VolumeId: strings.TrimSuffix(image, ".img")})
			require.NoError(k.t, err, "file %s belongs to no volume", image)
		}
		again, err := k.env.CO.Create(k.ctx, harness.Spec{Name: req.GetName(), Node: "n1"})
		require.NoError(k.t, err)
		require.Equal(k.t, v.ID, again.ID)
	}),
	"CSI-GEN-Conc-03": rowOf(func(k *fixture) {
		v := k.volume()
		cutOff := func(wait time.Duration) {
			brief, cancel := context.WithTimeout(k.ctx, wait)
			defer cancel()
			_, _ = k.controller.ControllerPublishVolume(brief, &csi.ControllerPublishVolumeRequest{VolumeId: v.ID, NodeId: "n1", VolumeCapability: v.Capability()})
		}
		wait := time.Millisecond
		for ; wait < 20*time.Millisecond; wait *= 2 {
			cutOff(wait)
		}
		require.NoError(k.t, harness.Poll(k.ctx, timeout, "the cut-off publication to be there", func() (bool, error) {
			if len(k.publishedAt(v.ID)) == 1 {
				return true, nil
			}
			cutOff(wait) // possibly none has reached the log
			wait *= 2
			return false, nil
		}))
		k.untilOK(func() error { return k.unpublish(v.ID, "n1") })
		require.Empty(k.t, k.publishedAt(v.ID))
	}),
	"CSI-GEN-Conc-04": rowOf(func(k *fixture) {
		v := k.volume()
		random := rand.New(rand.NewPCG(3, 4))
		again := func(what string, call func(ctx context.Context) error) {
			for range 5 {
				brief, cancel := context.WithTimeout(k.ctx, time.Duration(random.IntN(15)+1)*time.Millisecond)
				_ = call(brief)
				cancel()
			}
			require.NoError(k.t, harness.Poll(k.ctx, timeout, what, func() (bool, error) {
				err := call(k.ctx)
				if err != nil && !harness.Retriable(err) {
					err = harness.Permanent(err)
				}
				return err == nil, err
			}))
		}
		again("publish", func(ctx context.Context) error {
			_, err := k.controller.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{VolumeId: v.ID, NodeId: "n1", VolumeCapability: v.Capability()})
			return err
		})
		require.Equal(k.t, []string{"n1"}, k.publishedAt(v.ID))
		again("unpublish", func(ctx context.Context) error {
			_, err := k.controller.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: v.ID, NodeId: "n1"})
			return err
		})
		require.Empty(k.t, k.publishedAt(v.ID))
		again("snapshot", func(ctx context.Context) error {
			_, err := k.controller.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "of-" + v.ID, SourceVolumeId: v.ID})
			return err
		})
		snapshot := k.snapshotsOf([]string{v.ID})
		require.Len(k.t, snapshot, 1)
		again("delete the snapshot", func(ctx context.Context) error {
			_, err := k.controller.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: snapshot[0]})
			return err
		})
		require.Empty(k.t, k.snapshotsOf([]string{v.ID}))
		again("delete the volume", func(ctx context.Context) error {
			_, err := k.controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v.ID})
			return err
		})
	}),
}

// errorTableCases is one case for each kind of error row of the specification's tables.
func errorTableCases(k *fixture) {
	v, w := k.volume(), k.volume()
	other := harness.Spec{Name: v.Name, Node: "n1", Size: 64 * harness.Mi}.CreateRequest()
	tooMuch := harness.Spec{Name: k.env.Name("vol")}.CreateRequest()
	tooMuch.CapacityRange = &csi.CapacityRange{RequiredBytes: 1 << 60}
	sourced := harness.Spec{Name: k.env.Name("vol")}.CreateRequest()
	sourced.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: unknownSnapshotID}}}
	snapshot := k.snapshot(v.ID)
	require.NoError(k.t, k.env.CO.Publish(k.ctx, w, "n1"))
	k.cleanUpWith(func(ctx context.Context) error { return k.env.CO.Unpublish(ctx, w) })
	res, err := k.controller.ListSnapshots(k.ctx, &csi.ListSnapshotsRequest{SnapshotId: snapshot.GetSnapshotId()})
	require.NoError(k.t, err)
	name := "of-" + v.ID
	named, err := k.controller.CreateSnapshot(k.ctx, &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: v.ID})
	require.NoError(k.t, err)
	k.deleteSnapshotLater(named.GetSnapshot().GetSnapshotId())
	require.Len(k.t, res.GetEntries(), 1)
	for _, row := range []struct {
		method string
		req    proto.Message
		want   []codes.Code
	}{
		{"Controller/CreateVolume", other, []codes.Code{codes.AlreadyExists}},
		{"Controller/CreateVolume", tooMuch, []codes.Code{codes.OutOfRange, codes.ResourceExhausted}},
		{"Controller/CreateVolume", sourced, []codes.Code{codes.NotFound}},
		{"Controller/DeleteVolume", &csi.DeleteVolumeRequest{VolumeId: w.ID}, []codes.Code{codes.FailedPrecondition}},
		{"Controller/ControllerPublishVolume", &csi.ControllerPublishVolumeRequest{VolumeId: v.ID, NodeId: "nobody", VolumeCapability: v.Capability()}, []codes.Code{codes.NotFound}},
		{"Controller/ControllerPublishVolume", &csi.ControllerPublishVolumeRequest{VolumeId: w.ID, NodeId: "n1", VolumeCapability: v.Capability(), Readonly: true}, []codes.Code{codes.AlreadyExists}},
		{"Controller/ListVolumes", &csi.ListVolumesRequest{StartingToken: "garbage"}, []codes.Code{codes.Aborted}},
		{"Controller/ListSnapshots", &csi.ListSnapshotsRequest{StartingToken: "garbage"}, []codes.Code{codes.Aborted}},
		{"Controller/CreateSnapshot", &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: w.ID}, []codes.Code{codes.AlreadyExists}},
		{"Controller/ControllerExpandVolume", &csi.ControllerExpandVolumeRequest{VolumeId: v.ID, CapacityRange: &csi.CapacityRange{RequiredBytes: 1 << 60}}, []codes.Code{codes.OutOfRange, codes.ResourceExhausted}},
		{"Controller/ControllerModifyVolume", modification(v.ID, "colour", "blue"), []codes.Code{codes.InvalidArgument}},
	} {
		_, _, err := k.callMethod(k.env.Conn(k.t, "c1"), row.method, row.req)
		k.requireCode(row.method, err, row.want...)
	}
}

// randomized is a request whose texts are of random bytes that are valid UTF-8.
func randomized(req proto.Message, random *rand.Rand) proto.Message {
	other := proto.Clone(req)
	m := other.ProtoReflect()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); f.Kind() == protoreflect.StringKind && !f.IsList() && !f.IsMap() {
			runes := make([]rune, random.IntN(200))
			for i := range runes {
				runes[i] = rune(random.IntN(0x800))
			}
			m.Set(f, protoreflect.ValueOfString(string(runes)))
		}
	}
	return other
}

// parallel makes the same call at all controllers at once: only ABORTED may it fail with.
func (k *fixture) parallel(n int, call func(csi.ControllerClient) (string, error)) []string {
	k.t.Helper()
	var mu sync.Mutex
	var ids []string
	inParallel(n, func(i int) {
		ctl, err := k.env.Cluster.Controller([]string{"c1", "c2", "c3"}[i%3])
		if err != nil {
			k.t.Error(err)
			return
		}
		id, err := call(ctl)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			ids = append(ids, id)
		case status.Code(err) != codes.Aborted:
			k.t.Errorf("one of several equal calls: %v", err)
		}
	})
	return ids
}

// requireOneID requires that all calls answered the same id, and returns it.
func (k *fixture) requireOneID(ids []string) string {
	k.t.Helper()
	slices.Sort(ids)
	require.Len(k.t, slices.Compact(ids), 1)
	return ids[0]
}

// publishedAt are the nodes that a volume is published at.
func (k *fixture) publishedAt(id string) []string {
	k.t.Helper()
	res, err := k.controller.ControllerGetVolume(k.ctx, &csi.ControllerGetVolumeRequest{VolumeId: id})
	require.NoError(k.t, err)
	return res.GetStatus().GetPublishedNodeIds()
}

// deleteByName deletes what has a name with the row.
func (k *fixture) deleteByName(name string) {
	req := &csi.CreateVolumeRequest{Name: name, VolumeCapabilities: []*csi.VolumeCapability{(&harness.Volume{FSType: "ext4"}).Capability()}}
	res, err := k.controller.CreateVolume(k.ctx, req)
	require.NoError(k.t, err)
	k.deleteVolumeLater(res.GetVolume().GetVolumeId())
}
