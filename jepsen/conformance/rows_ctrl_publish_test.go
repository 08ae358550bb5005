package conformance

import (
	"os"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

type publishRequest = csi.ControllerPublishVolumeRequest

// publishRejected makes a row: a changed publication of a volume for one writer
// and one reader has a code, when it is not published yet and when `first` is.
func publishRejected(want codes.Code, first bool, changes ...func(r *publishRequest)) rowTest {
	return with(func(k *kit) {
		id := k.made(capable(mounted(writer, "ext4"), mounted(reader, "ext4"))).GetVolumeId()
		if first {
			k.published(publication(id))
		}
		before := k.get(id)
		for _, c := range changes {
			req := publication(id)
			c(req)
			for range 2 {
				refused(k.t, k.publish(req), want)
			}
		}
		requireSame(k, before, k.get(id))
	})
}

var publishRows = map[string]rowTest{
	"CSI-CTRL-ControllerPublishVolume-01": alwaysServed(csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME, publishesAndEnds),
	"CSI-CTRL-ControllerPublishVolume-02": with(func(k *kit) {
		for _, node := range []string{"n1", "n2"} {
			id := k.made(at(places(node), nil)).GetVolumeId()
			req := publication(id)
			req.NodeId = node
			first := k.published(req)
			k.everyController(func(_ string, c csi.ControllerClient) {
				res, err := c.ControllerPublishVolume(k.ctx, req)
				require.NoError(k.t, err)
				require.Equal(k.t, first, res.GetPublishContext())
			})
		}
	}),
	"CSI-CTRL-ControllerPublishVolume-03": with(samePublishContext),
	"CSI-CTRL-ControllerPublishVolume-04": publishRejected(codes.InvalidArgument, false, func(r *publishRequest) { r.VolumeId = "" }),
	"CSI-CTRL-ControllerPublishVolume-05": publishRejected(codes.InvalidArgument, false, func(r *publishRequest) { r.NodeId = "" }),
	"CSI-CTRL-ControllerPublishVolume-06": with(func(k *kit) {
		publishRejected(codes.NotFound, false, func(r *publishRequest) { r.NodeId = strings.Repeat("n", 256) })(k.t, k.w)
		publishRejected(codes.InvalidArgument, false, func(r *publishRequest) { r.NodeId = strings.Repeat("n", 257) })(k.t, k.w)
	}),
	"CSI-CTRL-ControllerPublishVolume-07": publishRejected(codes.InvalidArgument, false, func(r *publishRequest) { r.VolumeCapability = nil }),
	"CSI-CTRL-ControllerPublishVolume-08": with(func(k *kit) {
		publishRejected(codes.FailedPrecondition, false,
			func(r *publishRequest) { r.VolumeCapability = raw(writer) },
			func(r *publishRequest) { r.VolumeCapability = mounted(writer, "xfs") })(k.t, k.w)
		for _, granted := range []mode{oneWorkload, reader} {
			req := publication(k.made(capable(mounted(granted, "ext4"))).GetVolumeId())
			refused(k.t, k.publish(req), codes.FailedPrecondition)
		}
		require.NoError(k.t, k.inUse(k.made(), mounted(writer, "ext4"), false).write("used as described"))
	}),
	"CSI-CTRL-ControllerPublishVolume-10": with(readOnlyIsReadOnly),
	"CSI-CTRL-ControllerPublishVolume-11": with(func(k *kit) {
		publishRejected(codes.InvalidArgument, false, func(r *publishRequest) { r.VolumeContext = map[string]string{"not": "its own"} })(k.t, k.w)
		v := k.made()
		req := publication(v.GetVolumeId())
		req.VolumeContext = v.GetVolumeContext()
		k.published(req)
		req.VolumeContext = nil
		require.NoError(k.t, k.publish(req))
	}),
	"CSI-CTRL-ControllerPublishVolume-12": with(func(k *kit) {
		total := 0
		for key, value := range k.published(publication(k.made().GetVolumeId())) {
			total += len(key) + len(value)
		}
		require.Positive(k.t, total)
		require.LessOrEqual(k.t, total, 4096)
	}),
	"CSI-CTRL-ControllerPublishVolume-13": with(samePublishContext),
	"CSI-CTRL-ControllerPublishVolume-14": with(func(k *kit) {
		req := publication(k.made().GetVolumeId())
		req.Secrets = map[string]string{"password": "canary-in-a-secret"}
		req.GetVolumeCapability().GetMount().MountFlags = []string{"noatime"}
		for key, value := range k.published(req) {
			require.NotContains(k.t, key+value, "canary")
			require.NotContains(k.t, key+value, "noatime")
		}
	}),
	"CSI-CTRL-ControllerPublishVolume-15": publishRejected(codes.NotFound, false,
		func(r *publishRequest) { r.VolumeId = unknownVolumeID },
		func(r *publishRequest) { r.VolumeId = "x" },
		func(r *publishRequest) { r.VolumeId, r.NodeId = unknownVolumeID, "nowhere" }),
	"CSI-CTRL-ControllerPublishVolume-16": publishRejected(codes.NotFound, false, func(r *publishRequest) { r.NodeId = "nowhere" }),
	"CSI-CTRL-ControllerPublishVolume-17": publishRejected(codes.AlreadyExists, true,
		func(r *publishRequest) { r.VolumeCapability = raw(writer) },
		func(r *publishRequest) { r.VolumeCapability = mounted(reader, "ext4") }),
	"CSI-CTRL-ControllerPublishVolume-18": publishRejected(codes.AlreadyExists, true, func(r *publishRequest) { r.Readonly = true }),
	"CSI-CTRL-ControllerPublishVolume-19": publishRejected(codes.FailedPrecondition, true, func(r *publishRequest) { r.NodeId = "n2" }),
	"CSI-CTRL-ControllerPublishVolume-20": with(func(k *kit) {
		req := publication(k.made().GetVolumeId())
		k.published(req)
		req.NodeId = "n2"
		err := k.publish(req)
		refused(k.t, err, codes.FailedPrecondition)
		require.ErrorContains(k.t, err, "n1")
	}),
	"CSI-CTRL-ControllerPublishVolume-25": with(func(k *kit) {
		req := publication(k.made().GetVolumeId())
		first := k.published(req)
		req.Secrets = map[string]string{"user": "u"}
		require.Equal(k.t, first, k.published(req))
		req.Secrets = map[string]string{"a b": "u"}
		refused(k.t, k.publish(req), codes.InvalidArgument)
	}),
	"CSI-CTRL-ControllerPublishVolume-26": with(func(k *kit) { // inUse stages at once, and only once
		for range 5 {
			require.NoError(k.t, k.inUse(k.made(), mounted(writer, "ext4"), false).write("at once"))
		}
	}),
}

// publishesAndEnds calls both halves at one controller.
func publishesAndEnds(k *kit, c csi.ControllerClient) error {
	id := k.made().GetVolumeId()
	if _, err := c.ControllerPublishVolume(k.ctx, publication(id)); err != nil {
		return err
	}
	require.Equal(k.t, []string{"n1"}, k.get(id).GetStatus().GetPublishedNodeIds())
	_, err := c.ControllerUnpublishVolume(k.ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: "n1"})
	require.Empty(k.t, k.get(id).GetStatus().GetPublishedNodeIds())
	return err
}

func samePublishContext(k *kit) {
	req := publication(k.made().GetVolumeId())
	first := k.published(req)
	require.NotEmpty(k.t, first)
	for range 10 {
		k.everyController(func(_ string, c csi.ControllerClient) {
			res, err := c.ControllerPublishVolume(k.ctx, proto.Clone(req).(*publishRequest))
			require.NoError(k.t, err)
			require.Equal(k.t, first, res.GetPublishContext())
		})
	}
}

func readOnlyIsReadOnly(k *kit) {
	require.True(k.t, controllerHas(csi.ControllerServiceCapability_RPC_PUBLISH_READONLY)(k, k.w.Conn(k.t, "c1")))
	u := k.inUse(k.written("before"), mounted(writer, "ext4"), true)
	require.ErrorIs(k.t, u.write("after"), syscall.EROFS)
	require.Equal(k.t, "before", u.read())
}

var lessPublishRows = map[string]rowTest{
	"CSI-CTRL-ControllerPublishVolume-09": with(func(k *kit) {
		require.False(k.t, controllerHas(csi.ControllerServiceCapability_RPC_PUBLISH_READONLY)(k, k.lessConn("c1")))
		c := k.lessController()
		id := k.lessVolume()
		req := publication(id)
		req.Readonly = true
		_, err := c.ControllerPublishVolume(k.ctx, req)
		refused(k.t, err, codes.InvalidArgument)
		readOnlyIsReadOnly(k)
	}),
	"CSI-CTRL-ControllerPublishVolume-21": with(func(k *kit) {
		c := k.lessController()
		for range maxPublished {
			k.lessPublished(k.lessVolume())
		}
		_, err := c.ControllerPublishVolume(k.ctx, publication(k.lessVolume()))
		refused(k.t, err, codes.ResourceExhausted)
	}),
}

// unpublishedOK makes a row: these calls are all OK, and leave one publication be.
func unpublishedOK(calls ...[2]string) rowTest {
	return with(func(k *kit) {
		id := k.made().GetVolumeId()
		k.published(publication(id))
		idle := k.made().GetVolumeId()
		for _, c := range append(calls, [2]string{idle, "n1"}, [2]string{idle, ""}, [2]string{id, "n2"}) {
			for range 2 {
				require.NoError(k.t, k.unpublish(c[0], c[1]))
			}
		}
		require.Equal(k.t, []string{"n1"}, k.get(id).GetStatus().GetPublishedNodeIds())
		for range 2 {
			require.NoError(k.t, k.unpublish(id, "n1"))
			require.Empty(k.t, k.get(id).GetStatus().GetPublishedNodeIds())
		}
	})
}

var unpublishRows = map[string]rowTest{
	"CSI-CTRL-ControllerUnpublishVolume-01": alwaysServed(csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME, publishesAndEnds),
	"CSI-CTRL-ControllerUnpublishVolume-02": with(func(k *kit) {
		k.everyController(func(_ string, c csi.ControllerClient) { require.NoError(k.t, publishesAndEnds(k, c)) })
	}),
	"CSI-CTRL-ControllerUnpublishVolume-03": refuses(codes.InvalidArgument, func(k *kit) error { return k.unpublish("", "n1") }),
	"CSI-CTRL-ControllerUnpublishVolume-04": unpublishedOK(),
	"CSI-CTRL-ControllerUnpublishVolume-05": with(func(k *kit) {
		id := k.made().GetVolumeId()
		k.published(publication(id))
		require.NoError(k.t, k.unpublish(id, ""))
		require.Empty(k.t, k.listed(id).GetStatus().GetPublishedNodeIds())
	}),
	"CSI-CTRL-ControllerUnpublishVolume-06": unpublishedOK(),
	"CSI-CTRL-ControllerUnpublishVolume-07": unpublishedOK([2]string{unknownVolumeID, "n1"}, [2]string{"x", "nowhere"}, [2]string{unknownVolumeID, ""},
		[2]string{strings.Repeat("v", 128), strings.Repeat("n", 256)}),
	"CSI-CTRL-ControllerUnpublishVolume-10": with(func(k *kit) {
		id := k.made(capable(mounted(writer, "ext4"), mounted(reader, "ext4"))).GetVolumeId()
		first := k.published(publication(id))
		require.NoError(k.t, k.unpublish(id, "n1"))
		other := publication(id)
		other.Readonly, other.VolumeCapability = true, mounted(reader, "ext4")
		require.NotEqual(k.t, first, k.published(other))
	}),
	"CSI-CTRL-ControllerUnpublishVolume-12": with(func(k *kit) {
		v := k.made()
		u := k.inUse(v, mounted(writer, "ext4"), false)
		busy, err := os.Create(u.file())
		require.NoError(k.t, err)
		defer busy.Close()
		for range 2 { // no other host reaches the data of a single replica (S31)
			require.NoError(k.t, k.unpublish(v.GetVolumeId(), "n1"))
		}
		require.Empty(k.t, k.get(v.GetVolumeId()).GetStatus().GetPublishedNodeIds())
		_, err = busy.WriteString("what is in use goes on")
		require.NoError(k.t, err)
		require.NoError(k.t, busy.Sync())
		pub := publication(v.GetVolumeId())
		pub.NodeId = "n2"
		refused(k.t, k.publish(pub), codes.FailedPrecondition)
	}),
	"CSI-CTRL-ControllerUnpublishVolume-13": with(func(k *kit) {
		id := k.made().GetVolumeId()
		for _, secrets := range []map[string]string{nil, {"user": "u"}} {
			k.published(publication(id))
			_, err := k.ctl.ControllerUnpublishVolume(k.ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: "n1", Secrets: secrets})
			require.NoError(k.t, err)
			require.Empty(k.t, k.get(id).GetStatus().GetPublishedNodeIds())
		}
	}),
}

type validateRequest = csi.ValidateVolumeCapabilitiesRequest

func (k *kit) validate(req *validateRequest) *csi.ValidateVolumeCapabilitiesResponse {
	k.t.Helper()
	res, err := k.ctl.ValidateVolumeCapabilities(k.ctx, req)
	require.NoError(k.t, err)
	require.LessOrEqual(k.t, len(res.GetMessage()), 128)
	return res
}

func (k *kit) validation(changes ...func(r *validateRequest)) *validateRequest {
	req := &validateRequest{VolumeId: k.made().GetVolumeId(), VolumeCapabilities: []*csi.VolumeCapability{mounted(writer, "ext4")}}
	for _, c := range changes {
		c(req)
	}
	return req
}

// unconfirmed makes a row: these are not confirmed, and it is said why.
func unconfirmed(changes ...func(r *validateRequest)) rowTest {
	return with(func(k *kit) {
		for _, c := range changes {
			for range 2 {
				res := k.validate(k.validation(c))
				require.Nil(k.t, res.GetConfirmed())
				require.NotEmpty(k.t, res.GetMessage())
			}
		}
		require.NotNil(k.t, k.validate(k.validation()).GetConfirmed())
	})
}

func validateRejected(want codes.Code, c func(r *validateRequest)) rowTest {
	return refuses(want, func(k *kit) error {
		_, err := k.ctl.ValidateVolumeCapabilities(k.ctx, k.validation(c))
		return err
	})
}

func about(caps ...*csi.VolumeCapability) func(r *validateRequest) {
	return func(r *validateRequest) { r.VolumeCapabilities = caps }
}

var validateRows = map[string]rowTest{
	"CSI-CTRL-ValidateVolumeCapabilities-02": unconfirmed(about(mounted(writer, "ext4"), mounted(manyWriters, "ext4")), about(mounted(writer, "ext4"), raw(writer))),
	"CSI-CTRL-ValidateVolumeCapabilities-03": with(func(k *kit) {
		req := k.validation()
		first, before := k.validate(req), k.get(req.GetVolumeId())
		require.NotNil(k.t, first.GetConfirmed())
		k.everyController(func(_ string, c csi.ControllerClient) {
			res, err := c.ValidateVolumeCapabilities(k.ctx, req)
			require.NoError(k.t, err)
			requireSame(k, first, res)
		})
		requireSame(k, before, k.get(req.GetVolumeId()))
	}),
	"CSI-CTRL-ValidateVolumeCapabilities-04": validateRejected(codes.InvalidArgument, func(r *validateRequest) { r.VolumeId = "" }),
	"CSI-CTRL-ValidateVolumeCapabilities-05": validateRejected(codes.InvalidArgument, func(r *validateRequest) { r.VolumeCapabilities = nil }),
	"CSI-CTRL-ValidateVolumeCapabilities-06": unconfirmed(func(r *validateRequest) { r.VolumeContext = map[string]string{"not": "its own"} }),
	"CSI-CTRL-ValidateVolumeCapabilities-07": unconfirmed(func(r *validateRequest) { r.Parameters = map[string]string{"colour": "blue"} },
		func(r *validateRequest) { r.Parameters = map[string]string{"replicas": "7"} }),
	"CSI-CTRL-ValidateVolumeCapabilities-08": with(func(k *kit) {
		req := k.validation(about(mounted(writer, "ext4"), mounted(writer, "")))
		got := k.validate(req).GetConfirmed().GetVolumeCapabilities()
		require.Len(k.t, got, 2)
		for i, c := range req.GetVolumeCapabilities() {
			requireSame(k, c, got[i])
		}
	}),
	"CSI-CTRL-ValidateVolumeCapabilities-09": with(func(k *kit) {
		bare := k.validate(k.validation()).GetConfirmed()
		require.NotNil(k.t, bare)
		require.Empty(k.t, bare.GetVolumeContext())
		require.Empty(k.t, bare.GetParameters())
		given := map[string]string{"fsType": "ext4"}
		require.Equal(k.t, given, k.validate(k.validation(func(r *validateRequest) { r.Parameters = given })).GetConfirmed().GetParameters())
	}),
	"CSI-CTRL-ValidateVolumeCapabilities-10": with(func(k *kit) {
		unconfirmed(about(mounted(manyReaders, "ext4")), about(raw(writer)), about(mounted(writer, "xfs")))(k.t, k.w)
		one := k.made(capable(mounted(reader, "ext4"))).GetVolumeId()
		require.Nil(k.t, k.validate(&validateRequest{VolumeId: one, VolumeCapabilities: []*csi.VolumeCapability{mounted(writer, "ext4")}}).GetConfirmed())
	}),
	"CSI-CTRL-ValidateVolumeCapabilities-11": unconfirmed(func(r *validateRequest) { r.Parameters = map[string]string{strings.Repeat("k", 1000): "v"} },
		func(r *validateRequest) { r.Parameters = map[string]string{"replicas": strings.Repeat("ü", 500)} },
		func(r *validateRequest) { r.VolumeContext = map[string]string{strings.Repeat("k", 1000): "v"} }),
	"CSI-CTRL-ValidateVolumeCapabilities-12": validateRejected(codes.NotFound, func(r *validateRequest) { r.VolumeId = unknownVolumeID }),
}

var lessValidateRows = map[string]rowTest{
	"CSI-CTRL-ValidateVolumeCapabilities-01": with(func(k *kit) {
		req := &validateRequest{VolumeId: k.lessVolume(), VolumeCapabilities: []*csi.VolumeCapability{mounted(writer, "ext4")}}
		res, err := k.lessController().ValidateVolumeCapabilities(k.ctx, req)
		require.NoError(k.t, err)
		require.NotNil(k.t, res.GetConfirmed())
	}),
}
