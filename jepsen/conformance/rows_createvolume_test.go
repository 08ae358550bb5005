package conformance

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

var createVolumeRows = map[string]rowTest{
	"CSI-CTRL-CreateVolume-01": rowAlwaysServed(csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, func(k *fixture, c csi.ControllerClient) error {
		res, err := c.CreateVolume(k.ctx, k.newCreateRequest())
		if err == nil {
			k.deleteVolumeLater(res.GetVolume().GetVolumeId())
		}
		return err
	}),
	"CSI-CTRL-CreateVolume-02": rowOf(func(k *fixture) {
		req := k.newCreateRequest()
		v := k.createVolumeFrom(req)
		for range 3 {
			requireSame(k, v, k.createAgain(req))
		}
	}),
	"CSI-CTRL-CreateVolume-04": rowOf(oneVolumeOfManyCalls),
	"CSI-CTRL-CreateVolume-05": rowOf(func(k *fixture) {
		req := k.newCreateRequest()
		v := k.createVolumeFrom(req)
		for _, r := range []change{withSize(8*harness.Mi, 32*harness.Mi), withSize(0, 32*harness.Mi), withSize(1, 0)} {
			r(req)
			requireSame(k, v, k.createAgain(req))
		}
	}),
	"CSI-CTRL-CreateVolume-06": rowOf(func(k *fixture) {
		req := k.newCreateRequest()
		req.Secrets = map[string]string{"key": "old"}
		v := k.createVolumeFrom(req)
		for _, rotated := range []map[string]string{{"key": "new"}, {"other": "x"}, nil} {
			req.Secrets = rotated
			requireSame(k, v, k.createAgain(req))
		}
	}),
	"CSI-CTRL-CreateVolume-07": rowCreateRejected(codes.InvalidArgument, withName("")),
	"CSI-CTRL-CreateVolume-08": rowOf(func(k *fixture) {
		for _, longest := range []string{strings.Repeat("n", 128), strings.Repeat("é", 64)} {
			require.NotEmpty(k.t, k.createVolume(withName(longest)).GetVolumeId())
			k.requireCreateRejected(codes.InvalidArgument, k.newCreateRequest(withName(longest+"n")))
		}
	}),
	"CSI-CTRL-CreateVolume-09": rowOf(func(k *fixture) {
		for _, odd := range []string{"a b", "a\tb", "a\nb", "a\rb", "a/b", "../../x", "/etc/passwd", "🗄", "שלום", ".hidden", "-rf", "%s%n"} {
			req := k.newCreateRequest(withName(odd + k.env.Name("")))
			v := k.createVolumeFrom(req)
			require.NotContains(k.t, v.GetVolumeId(), "/")
			require.FileExists(k.t, k.imageOf(v.GetVolumeId()))
		}
	}),
	"CSI-CTRL-CreateVolume-10": rowOf(func(k *fixture) {
		for _, c := range controlCharacters() {
			req := k.newCreateRequest(withName("a" + string(c) + "b"))
			_, err := k.controller.CreateVolume(k.ctx, req)
			requireRefused(k.t, err, codes.InvalidArgument)
		}
		for _, c := range "\t\n\r\u00a0\u0020" {
			k.createVolume(withName(k.env.Name("") + string(c)))
		}
	}),
	"CSI-CTRL-CreateVolume-11": rowOf(func(k *fixture) {
		v := k.createVolume(func(r *createRequest) { r.CapacityRange = nil })
		require.Positive(k.t, v.GetCapacityBytes())
	}),
	"CSI-CTRL-CreateVolume-12": rowOf(func(k *fixture) {
		source := k.createVolume()
		snapshot := k.snapshot(source.GetVolumeId())
		for _, from := range []change{func(*createRequest) {}, fromSnapshot(snapshot.GetSnapshotId()), fromVolume(source.GetVolumeId())} {
			const required, limit = 20*harness.Mi + 1, 20*harness.Mi + 8192
			v := k.createVolume(withSize(required, limit), from)
			require.GreaterOrEqual(k.t, v.GetCapacityBytes(), int64(required))
			require.LessOrEqual(k.t, v.GetCapacityBytes(), int64(limit))
		}
	}),
	"CSI-CTRL-CreateVolume-13": rowCreateRejected(codes.InvalidArgument, withVolumeCapabilities()),
	"CSI-CTRL-CreateVolume-14": rowOf(eachModeWorks),
	"CSI-CTRL-CreateVolume-15": rowCreateRejected(codes.InvalidArgument,
		withVolumeCapabilities(mountCapability(writer, "ext4"), mountCapability(multiNodeMultiWriter, "ext4")), withVolumeCapabilities(mountCapability(multiNodeReader, "ext4"), mountCapability(writer, "ext4")),
		withVolumeCapabilities(mountCapability(writer, "ext4"), mountCapability(writer, "btrfs"))),
	"CSI-CTRL-CreateVolume-16": rowCreateRejected(codes.InvalidArgument, withParameter("colour", "blue"), withParameter("fsType", "zfs"),
		withParameter("replicas", "0"), withParameter("replicas", "many"), withParameter("iopsLimit", "fast"),
		func(r *createRequest) { r.Parameters = map[string]string{"fsType": "ext4", "FSTYPE": "ext4"} }),
	"CSI-CTRL-CreateVolume-17": rowOf(func(k *fixture) {
		for _, secrets := range []map[string]string{nil, {}, {"user": "u", "pass-word_1.x": "canary"}} {
			k.createVolume(func(r *createRequest) { r.Secrets = secrets })
		}
		k.requireCreateRejected(codes.InvalidArgument, k.newCreateRequest(func(r *createRequest) { r.Secrets = map[string]string{"a b": "x"} }))
	}),
	"CSI-CTRL-CreateVolume-18": rowOf(func(k *fixture) {
		snapshot := k.snapshot(k.volumeWithText("before the cut").GetVolumeId())
		require.Equal(k.t, "before the cut", k.newMountedUse(k.createVolume(fromSnapshot(snapshot.GetSnapshotId())), mountCapability(writer, "ext4"), false).read())
	}),
	"CSI-CTRL-CreateVolume-19": rowCreateRejected(codes.InvalidArgument, func(r *createRequest) { r.VolumeContentSource = &csi.VolumeContentSource{} }),
	"CSI-CTRL-CreateVolume-20": rowCreateRejected(codes.InvalidArgument, fromSnapshot("")),
	"CSI-CTRL-CreateVolume-21": rowCreateRejected(codes.InvalidArgument, fromVolume("")),
	"CSI-CTRL-CreateVolume-22": rowOf(func(k *fixture) {
		require.True(k.t, controllerHas(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT)(k, k.env.Conn(k.t, "c1")))
		snapshot := k.snapshot(k.createVolume().GetVolumeId())
		require.Equal(k.t, snapshot.GetSnapshotId(), k.createVolume(fromSnapshot(snapshot.GetSnapshotId())).GetContentSource().GetSnapshot().GetSnapshotId())
	}),
	"CSI-CTRL-CreateVolume-23": rowOf(func(k *fixture) {
		require.True(k.t, controllerHas(csi.ControllerServiceCapability_RPC_CLONE_VOLUME)(k, k.env.Conn(k.t, "c1")))
		source := k.volumeWithText("of the source")
		clone := k.createVolume(fromVolume(source.GetVolumeId()))
		require.Equal(k.t, source.GetVolumeId(), clone.GetContentSource().GetVolume().GetVolumeId())
		require.Equal(k.t, "of the source", k.newMountedUse(clone, mountCapability(writer, "ext4"), false).read())
	}),
	"CSI-CTRL-CreateVolume-25": rowOf(func(k *fixture) {
		source := k.volumeWithText("small")
		snapshot := k.snapshot(source.GetVolumeId())
		for _, from := range []change{fromSnapshot(snapshot.GetSnapshotId()), fromVolume(source.GetVolumeId())} {
			v := k.createVolume(from, withSize(64*harness.Mi, 0))
			require.GreaterOrEqual(k.t, v.GetCapacityBytes(), int64(64*harness.Mi))
			u := k.newMountedUse(v, mountCapability(writer, "ext4"), false)
			require.Equal(k.t, "small", u.read())
			require.NoError(k.t, u.cleanUp(k.ctx))
		}
	}),
	"CSI-CTRL-CreateVolume-26": rowOf(func(k *fixture) {
		source := k.volumeWithText("small")
		for _, size := range []int64{32 * harness.Mi, 64 * harness.Mi} {
			u := k.newMountedUse(k.createVolume(fromVolume(source.GetVolumeId()), withSize(size, 0)), mountCapability(writer, "ext4"), false)
			require.Greater(k.t, u.filesystemSize(), size*3/4)
			require.NoError(k.t, u.cleanUp(k.ctx))
		}
	}),
	"CSI-CTRL-CreateVolume-27": rowOf(func(k *fixture) {
		require.True(k.t, pluginHas(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)(k, k.env.Conn(k.t, "c1")))
		k.requireCannotDisable("VOLUME_ACCESSIBILITY_CONSTRAINTS")
		k.createVolume(withTopology(nodeTerms("n1"), nil))
	}),
	"CSI-CTRL-CreateVolume-28": rowOf(func(k *fixture) { k.nodeOf(k.createVolume(withoutTopology)) }),
	"CSI-CTRL-CreateVolume-29": rowOf(func(k *fixture) {
		help := k.env.Cluster.Run(k.ctx, "node", "--help")
		require.Zero(k.t, help.Code)
		require.Contains(k.t, help.Stdout, "CSI's node id and the value of its topology key")
		require.Contains(k.t, help.Stdout, "topology.holdfast.storage/zone")
	}),
	"CSI-CTRL-CreateVolume-30": rowOf(func(k *fixture) {
		v := k.createVolume()
		requireSame(k, v, k.get(v.GetVolumeId()).GetVolume())
	}),
	"CSI-CTRL-CreateVolume-31": rowOf(func(k *fixture) {
		source := k.volumeWithText("a filesystem")
		snapshot := k.snapshot(source.GetVolumeId())
		for _, from := range []change{fromSnapshot(snapshot.GetSnapshotId()), fromVolume(source.GetVolumeId())} {
			k.requireCreateRejected(codes.InvalidArgument, k.newCreateRequest(from, withVolumeCapabilities(blockCapability(writer))))
			k.requireCreateRejected(codes.InvalidArgument, k.newCreateRequest(from, withVolumeCapabilities(mountCapability(writer, "xfs")), withSize(320*harness.Mi, 0)))
		}
	}),
	"CSI-CTRL-CreateVolume-32": rowCreateRejected(codes.NotFound, fromSnapshot(unknownSnapshotID), fromVolume(unknownVolumeID), fromSnapshot("of another plugin"), fromVolume("x")),
	"CSI-CTRL-CreateVolume-33": rowCreateConflicts(withSize(32*harness.Mi, 0), withSize(0, 8*harness.Mi)),
	"CSI-CTRL-CreateVolume-34": rowCreateConflicts(withVolumeCapabilities(blockCapability(writer)), withVolumeCapabilities(mountCapability(reader, "ext4")), withVolumeCapabilities(mountCapability(writer, "ext4"), mountCapability(reader, "ext4"))),
	"CSI-CTRL-CreateVolume-35": rowCreateConflicts(withParameter("fsType", "ext4"), withParameter("iopsLimit", "1000/500")),
	"CSI-CTRL-CreateVolume-36": rowCreateConflicts(withTopology(nodeTerms("n2"), nil), withTopology(nodeTerms("nowhere"), nodeTerms("nowhere"))),
	"CSI-CTRL-CreateVolume-37": rowOf(func(k *fixture) {
		source := k.createVolume().GetVolumeId()
		one, two := k.snapshot(source).GetSnapshotId(), k.snapshot(source).GetSnapshotId()
		req := k.newCreateRequest(fromSnapshot(one))
		k.createVolumeFrom(req)
		for _, other := range []change{fromSnapshot(two), fromVolume(source), func(r *createRequest) { r.VolumeContentSource = nil }} {
			changed := proto.Clone(req).(*createRequest)
			other(changed)
			k.requireCreateRejected(codes.AlreadyExists, changed)
		}
		rowCreateConflicts(fromSnapshot(one))(k.t, k.env)
	}),
	"CSI-CTRL-CreateVolume-38": rowCreateRejected(codes.ResourceExhausted, withTopology(nodeTerms("nowhere"), nil), withSize(15<<40, 0)),
	"CSI-CTRL-CreateVolume-39": rowOf(func(k *fixture) {
		snapshot := k.snapshot(k.createVolume().GetVolumeId()).GetSnapshotId()
		rowCreateRejected(codes.OutOfRange, withSize(math.MaxInt64, 0), withSize(17<<40, 0), withSize(0, 4096), withSize(1, 4096),
			func(r *createRequest) { withSize(0, 8*harness.Mi)(r); fromSnapshot(snapshot)(r) },
			func(r *createRequest) { withSize(8*harness.Mi, 0)(r); fromSnapshot(snapshot)(r) })(k.t, k.env)
	}),
	"CSI-CTRL-CreateVolume-41": rowOf(eachModeWorks),
	"CSI-CTRL-CreateVolume-42": rowCreateRejected(codes.InvalidArgument,
		withVolumeCapabilities(mountCapability(writer, "ext4"), blockCapability(writer)), withVolumeCapabilities(blockCapability(writer), mountCapability(reader, "xfs")), withVolumeCapabilities(mountCapability(writer, "ext4"), mountCapability(writer, "xfs"))),
	"CSI-CTRL-CreateVolume-43": rowOf(func(k *fixture) {
		for id, from := range map[string]change{unknownSnapshotID: fromSnapshot(unknownSnapshotID), unknownVolumeID: fromVolume(unknownVolumeID)} {
			_, err := k.controller.CreateVolume(k.ctx, k.newCreateRequest(from))
			requireRefused(k.t, err, codes.NotFound)
			require.ErrorContains(k.t, err, id)
		}
	}),
}

// controlCharacters are those that CSI bans from every string.
func controlCharacters() []rune {
	var all []rune
	for r := rune(0); r <= 0x9f; r++ {
		if (r < 0x20 && r != '\t' && r != '\n' && r != '\r') || r >= 0x7f {
			all = append(all, r)
		}
	}
	return all
}

// oneVolumeOfManyCalls: concurrent calls for one name at all controllers create one file.
func oneVolumeOfManyCalls(k *fixture) {
	before, err := k.env.Cluster.AllImages()
	require.NoError(k.t, err)
	req := k.newCreateRequest(withoutTopology)
	var mu sync.Mutex
	ids, errs := map[string]bool{}, []error{}
	inParallel(12, func(i int) {
		c, err := k.env.Cluster.Controller(fmt.Sprintf("c%d", i%3+1))
		if err == nil {
			var res *csi.CreateVolumeResponse
			if res, err = c.CreateVolume(k.ctx, proto.Clone(req).(*createRequest)); err == nil {
				mu.Lock()
				ids[res.GetVolume().GetVolumeId()] = true
				mu.Unlock()
				return
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if !harness.Retriable(err) {
			errs = append(errs, err)
		}
	})
	ids[k.createVolumeFrom(req).GetVolumeId()] = true
	require.Empty(k.t, errs)
	require.Len(k.t, ids, 1)
	after, err := k.env.Cluster.AllImages()
	require.NoError(k.t, err)
	require.Len(k.t, after, len(before)+1)
}

// eachModeWorks: a volume that was created for several modes is used in each of them.
func eachModeWorks(k *fixture) {
	all := []*csi.VolumeCapability{mountCapability(writer, "ext4"), mountCapability(oneWorkload, "ext4"), mountCapability(allWorkloads, "ext4"), mountCapability(reader, "ext4")}
	v := k.createVolume(withVolumeCapabilities(all...))
	for _, as := range all {
		u := k.newMountedUse(v, as, false)
		if as.GetAccessMode().GetMode() != reader {
			require.NoError(k.t, u.write("used"))
		}
		require.Equal(k.t, "used", u.read())
		require.NoError(k.t, u.cleanUp(k.ctx))
	}
}

var disabledCreateRows = map[string]rowTest{
	"CSI-CTRL-CreateVolume-24": rowOf(func(k *fixture) {
		require.False(k.t, controllerHas(csi.ControllerServiceCapability_RPC_CLONE_VOLUME)(k, k.disabledConn("c1")))
		_, err := k.disabledController().CreateVolume(k.ctx, k.newCreateRequest(fromVolume(unknownVolumeID)))
		requireRefused(k.t, err, codes.InvalidArgument)
		k.requireCreateRejected(codes.NotFound, k.newCreateRequest(fromVolume(unknownVolumeID)))
	}),
}

func (k *fixture) disabledController() csi.ControllerClient {
	return csi.NewControllerClient(k.disabledConn("c1"))
}
