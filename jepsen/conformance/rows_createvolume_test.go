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
	"CSI-CTRL-CreateVolume-01": alwaysServed(csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, func(k *kit, c csi.ControllerClient) error {
		res, err := c.CreateVolume(k.ctx, k.asked())
		if err == nil {
			k.dropVolume(res.GetVolume().GetVolumeId())
		}
		return err
	}),
	"CSI-CTRL-CreateVolume-02": with(func(k *kit) {
		req := k.asked()
		v := k.answered(req)
		for range 3 {
			requireSame(k, v, k.again(req))
		}
	}),
	"CSI-CTRL-CreateVolume-04": with(oneVolumeOfManyCalls),
	"CSI-CTRL-CreateVolume-05": with(func(k *kit) {
		req := k.asked()
		v := k.answered(req)
		for _, r := range []change{sized(8*harness.Mi, 32*harness.Mi), sized(0, 32*harness.Mi), sized(1, 0)} {
			r(req)
			requireSame(k, v, k.again(req))
		}
	}),
	"CSI-CTRL-CreateVolume-06": with(func(k *kit) {
		req := k.asked()
		req.Secrets = map[string]string{"key": "old"}
		v := k.answered(req)
		for _, rotated := range []map[string]string{{"key": "new"}, {"other": "x"}, nil} {
			req.Secrets = rotated
			requireSame(k, v, k.again(req))
		}
	}),
	"CSI-CTRL-CreateVolume-07": createRejected(codes.InvalidArgument, named("")),
	"CSI-CTRL-CreateVolume-08": with(func(k *kit) {
		for _, longest := range []string{strings.Repeat("n", 128), strings.Repeat("é", 64)} {
			require.NotEmpty(k.t, k.made(named(longest)).GetVolumeId())
			k.rejects(codes.InvalidArgument, k.asked(named(longest+"n")))
		}
	}),
	"CSI-CTRL-CreateVolume-09": with(func(k *kit) {
		for _, odd := range []string{"a b", "a\tb", "a\nb", "a\rb", "a/b", "../../x", "/etc/passwd", "🗄", "שלום", ".hidden", "-rf", "%s%n"} {
			req := k.asked(named(odd + k.w.Name("")))
			v := k.answered(req)
			require.NotContains(k.t, v.GetVolumeId(), "/")
			require.FileExists(k.t, k.imageOf(v.GetVolumeId()))
		}
	}),
	"CSI-CTRL-CreateVolume-10": with(func(k *kit) {
		for _, c := range controlCharacters() {
			req := k.asked(named("a" + string(c) + "b"))
			_, err := k.ctl.CreateVolume(k.ctx, req)
			refused(k.t, err, codes.InvalidArgument)
		}
		for _, c := range "\t\n\r\u00a0\u0020" {
			k.made(named(k.w.Name("") + string(c)))
		}
	}),
	"CSI-CTRL-CreateVolume-11": with(func(k *kit) {
		v := k.made(func(r *createRequest) { r.CapacityRange = nil })
		require.Positive(k.t, v.GetCapacityBytes())
	}),
	"CSI-CTRL-CreateVolume-12": with(func(k *kit) {
		source := k.made()
		cut := k.snapshot(source.GetVolumeId())
		for _, from := range []change{func(*createRequest) {}, ofSnapshot(cut.GetSnapshotId()), ofVolume(source.GetVolumeId())} {
			const required, limit = 20*harness.Mi + 1, 20*harness.Mi + 8192
			v := k.made(sized(required, limit), from)
			require.GreaterOrEqual(k.t, v.GetCapacityBytes(), int64(required))
			require.LessOrEqual(k.t, v.GetCapacityBytes(), int64(limit))
		}
	}),
	"CSI-CTRL-CreateVolume-13": createRejected(codes.InvalidArgument, capable()),
	"CSI-CTRL-CreateVolume-14": with(eachModeWorks),
	"CSI-CTRL-CreateVolume-15": createRejected(codes.InvalidArgument,
		capable(mounted(writer, "ext4"), mounted(manyWriters, "ext4")), capable(mounted(manyReaders, "ext4"), mounted(writer, "ext4")),
		capable(mounted(writer, "ext4"), mounted(writer, "btrfs"))),
	"CSI-CTRL-CreateVolume-16": createRejected(codes.InvalidArgument, parameter("colour", "blue"), parameter("fsType", "zfs"),
		parameter("replicas", "0"), parameter("replicas", "many"), parameter("iopsLimit", "fast"),
		func(r *createRequest) { r.Parameters = map[string]string{"fsType": "ext4", "FSTYPE": "ext4"} }),
	"CSI-CTRL-CreateVolume-17": with(func(k *kit) {
		for _, secrets := range []map[string]string{nil, {}, {"user": "u", "pass-word_1.x": "canary"}} {
			k.made(func(r *createRequest) { r.Secrets = secrets })
		}
		k.rejects(codes.InvalidArgument, k.asked(func(r *createRequest) { r.Secrets = map[string]string{"a b": "x"} }))
	}),
	"CSI-CTRL-CreateVolume-18": with(func(k *kit) {
		cut := k.snapshot(k.written("before the cut").GetVolumeId())
		require.Equal(k.t, "before the cut", k.inUse(k.made(ofSnapshot(cut.GetSnapshotId())), mounted(writer, "ext4"), false).read())
	}),
	"CSI-CTRL-CreateVolume-19": createRejected(codes.InvalidArgument, func(r *createRequest) { r.VolumeContentSource = &csi.VolumeContentSource{} }),
	"CSI-CTRL-CreateVolume-20": createRejected(codes.InvalidArgument, ofSnapshot("")),
	"CSI-CTRL-CreateVolume-21": createRejected(codes.InvalidArgument, ofVolume("")),
	"CSI-CTRL-CreateVolume-22": with(func(k *kit) {
		require.True(k.t, controllerHas(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT)(k, k.w.Conn(k.t, "c1")))
		cut := k.snapshot(k.made().GetVolumeId())
		require.Equal(k.t, cut.GetSnapshotId(), k.made(ofSnapshot(cut.GetSnapshotId())).GetContentSource().GetSnapshot().GetSnapshotId())
	}),
	"CSI-CTRL-CreateVolume-23": with(func(k *kit) {
		require.True(k.t, controllerHas(csi.ControllerServiceCapability_RPC_CLONE_VOLUME)(k, k.w.Conn(k.t, "c1")))
		source := k.written("of the source")
		clone := k.made(ofVolume(source.GetVolumeId()))
		require.Equal(k.t, source.GetVolumeId(), clone.GetContentSource().GetVolume().GetVolumeId())
		require.Equal(k.t, "of the source", k.inUse(clone, mounted(writer, "ext4"), false).read())
	}),
	"CSI-CTRL-CreateVolume-25": with(func(k *kit) {
		source := k.written("small")
		cut := k.snapshot(source.GetVolumeId())
		for _, from := range []change{ofSnapshot(cut.GetSnapshotId()), ofVolume(source.GetVolumeId())} {
			v := k.made(from, sized(64*harness.Mi, 0))
			require.GreaterOrEqual(k.t, v.GetCapacityBytes(), int64(64*harness.Mi))
			u := k.inUse(v, mounted(writer, "ext4"), false)
			require.Equal(k.t, "small", u.read())
			require.NoError(k.t, u.down(k.ctx))
		}
	}),
	"CSI-CTRL-CreateVolume-26": with(func(k *kit) {
		source := k.written("small")
		for _, size := range []int64{32 * harness.Mi, 64 * harness.Mi} {
			u := k.inUse(k.made(ofVolume(source.GetVolumeId()), sized(size, 0)), mounted(writer, "ext4"), false)
			require.Greater(k.t, u.bytes(), size*3/4)
			require.NoError(k.t, u.down(k.ctx))
		}
	}),
	"CSI-CTRL-CreateVolume-27": with(func(k *kit) {
		require.True(k.t, pluginHas(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)(k, k.w.Conn(k.t, "c1")))
		k.cannotBeOff("VOLUME_ACCESSIBILITY_CONSTRAINTS")
		k.made(at(places("n1"), nil))
	}),
	"CSI-CTRL-CreateVolume-28": with(func(k *kit) { k.placeOf(k.made(anywhere)) }),
	"CSI-CTRL-CreateVolume-29": with(func(k *kit) {
		help := k.w.Cluster.Run(k.ctx, "node", "--help")
		require.Zero(k.t, help.Code)
		require.Contains(k.t, help.Stdout, "CSI's node id and the value of its topology key")
		require.Contains(k.t, help.Stdout, "topology.holdfast.storage/zone")
	}),
	"CSI-CTRL-CreateVolume-30": with(func(k *kit) {
		v := k.made()
		requireSame(k, v, k.get(v.GetVolumeId()).GetVolume())
	}),
	"CSI-CTRL-CreateVolume-31": with(func(k *kit) {
		source := k.written("a filesystem")
		cut := k.snapshot(source.GetVolumeId())
		for _, from := range []change{ofSnapshot(cut.GetSnapshotId()), ofVolume(source.GetVolumeId())} {
			k.rejects(codes.InvalidArgument, k.asked(from, capable(raw(writer))))
			k.rejects(codes.InvalidArgument, k.asked(from, capable(mounted(writer, "xfs")), sized(320*harness.Mi, 0)))
		}
	}),
	"CSI-CTRL-CreateVolume-32": createRejected(codes.NotFound, ofSnapshot(unknownSnapshotID), ofVolume(unknownVolumeID), ofSnapshot("of another plugin"), ofVolume("x")),
	"CSI-CTRL-CreateVolume-33": conflicts(sized(32*harness.Mi, 0), sized(0, 8*harness.Mi)),
	"CSI-CTRL-CreateVolume-34": conflicts(capable(raw(writer)), capable(mounted(reader, "ext4")), capable(mounted(writer, "ext4"), mounted(reader, "ext4"))),
	"CSI-CTRL-CreateVolume-35": conflicts(parameter("fsType", "ext4"), parameter("iopsLimit", "1000/500")),
	"CSI-CTRL-CreateVolume-36": conflicts(at(places("n2"), nil), at(places("nowhere"), places("nowhere"))),
	"CSI-CTRL-CreateVolume-37": with(func(k *kit) {
		source := k.made().GetVolumeId()
		one, two := k.snapshot(source).GetSnapshotId(), k.snapshot(source).GetSnapshotId()
		req := k.asked(ofSnapshot(one))
		k.answered(req)
		for _, other := range []change{ofSnapshot(two), ofVolume(source), func(r *createRequest) { r.VolumeContentSource = nil }} {
			changed := proto.Clone(req).(*createRequest)
			other(changed)
			k.rejects(codes.AlreadyExists, changed)
		}
		conflicts(ofSnapshot(one))(k.t, k.w)
	}),
	"CSI-CTRL-CreateVolume-38": createRejected(codes.ResourceExhausted, at(places("nowhere"), nil), sized(15<<40, 0)),
	"CSI-CTRL-CreateVolume-39": with(func(k *kit) {
		cut := k.snapshot(k.made().GetVolumeId()).GetSnapshotId()
		createRejected(codes.OutOfRange, sized(math.MaxInt64, 0), sized(17<<40, 0), sized(0, 4096), sized(1, 4096),
			func(r *createRequest) { sized(0, 8*harness.Mi)(r); ofSnapshot(cut)(r) },
			func(r *createRequest) { sized(8*harness.Mi, 0)(r); ofSnapshot(cut)(r) })(k.t, k.w)
	}),
	"CSI-CTRL-CreateVolume-41": with(eachModeWorks),
	"CSI-CTRL-CreateVolume-42": createRejected(codes.InvalidArgument,
		capable(mounted(writer, "ext4"), raw(writer)), capable(raw(writer), mounted(reader, "xfs")), capable(mounted(writer, "ext4"), mounted(writer, "xfs"))),
	"CSI-CTRL-CreateVolume-43": with(func(k *kit) {
		for id, from := range map[string]change{unknownSnapshotID: ofSnapshot(unknownSnapshotID), unknownVolumeID: ofVolume(unknownVolumeID)} {
			_, err := k.ctl.CreateVolume(k.ctx, k.asked(from))
			refused(k.t, err, codes.NotFound)
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

// oneVolumeOfManyCalls: calls for one name, at once and everywhere, make one file.
func oneVolumeOfManyCalls(k *kit) {
	before, err := k.w.Cluster.AllImages()
	require.NoError(k.t, err)
	req := k.asked(anywhere)
	var mu sync.Mutex
	ids, errs := map[string]bool{}, []error{}
	atOnce(12, func(i int) {
		c, err := k.w.Cluster.Controller(fmt.Sprintf("c%d", i%3+1))
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
	ids[k.answered(req).GetVolumeId()] = true
	require.Empty(k.t, errs)
	require.Len(k.t, ids, 1)
	after, err := k.w.Cluster.AllImages()
	require.NoError(k.t, err)
	require.Len(k.t, after, len(before)+1)
}

// eachModeWorks: a volume for several modes is used in each of them.
func eachModeWorks(k *kit) {
	all := []*csi.VolumeCapability{mounted(writer, "ext4"), mounted(oneWorkload, "ext4"), mounted(allWorkloads, "ext4"), mounted(reader, "ext4")}
	v := k.made(capable(all...))
	for _, as := range all {
		u := k.inUse(v, as, false)
		if as.GetAccessMode().GetMode() != reader {
			require.NoError(k.t, u.write("used"))
		}
		require.Equal(k.t, "used", u.read())
		require.NoError(k.t, u.down(k.ctx))
	}
}

var lessCreateRows = map[string]rowTest{
	"CSI-CTRL-CreateVolume-24": with(func(k *kit) {
		require.False(k.t, controllerHas(csi.ControllerServiceCapability_RPC_CLONE_VOLUME)(k, k.lessConn("c1")))
		_, err := k.lessController().CreateVolume(k.ctx, k.asked(ofVolume(unknownVolumeID)))
		refused(k.t, err, codes.InvalidArgument)
		k.rejects(codes.NotFound, k.asked(ofVolume(unknownVolumeID)))
	}),
}

func (k *kit) lessController() csi.ControllerClient {
	return csi.NewControllerClient(k.lessConn("c1"))
}
