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
	return rowOf(func(k *fixture) {
		id := k.createVolume(withVolumeCapabilities(mountCapability(writer, "ext4"), mountCapability(reader, "ext4"))).GetVolumeId()
		if first {
			k.published(publication(id))
		}
		before := k.get(id)
		for _, c := range changes {
			req := publication(id)
			c(req)
			for range 2 {
				requireRefused(k.t, k.publish(req), want)
			}
		}
		requireSame(k, before, k.get(id))
	})
}

var publishRows = map[string]rowTest{
	"CSI-CTRL-ControllerPublishVolume-01": rowAlwaysServed(csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME, publishesAndEnds),
	"CSI-CTRL-ControllerPublishVolume-02": rowOf(func(k *fixture) {
		for _, node := range []string{"n1", "n2"} {
			id := k.createVolume(withTopology(nodeTerms(node), nil)).GetVolumeId()
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
	"CSI-CTRL-ControllerPublishVolume-03": rowOf(samePublishContext),
	"CSI-CTRL-ControllerPublishVolume-04": publishRejected(codes.InvalidArgument, false, func(r *publishRequest) { r.VolumeId = "" }),
	"CSI-CTRL-ControllerPublishVolume-05": publishRejected(codes.InvalidArgument, false, func(r *publishRequest) { r.NodeId = "" }),
	"CSI-CTRL-ControllerPublishVolume-06": rowOf(func(k *fixture) {
		publishRejected(codes.NotFound, false, func(r *publishRequest) { r.NodeId = strings.Repeat("n", 256) })(k.t, k.env)
		publishRejected(codes.InvalidArgument, false, func(r *publishRequest) { r.NodeId = strings.Repeat("n", 257) })(k.t, k.env)
	}),
	"CSI-CTRL-ControllerPublishVolume-07": publishRejected(codes.InvalidArgument, false, func(r *publishRequest) { r.VolumeCapability = nil }),
	"CSI-CTRL-ControllerPublishVolume-08": rowOf(func(k *fixture) {
		publishRejected(codes.FailedPrecondition, false,
			func(r *publishRequest) { r.VolumeCapability = blockCapability(writer) },
			func(r *publishRequest) { r.VolumeCapability = mountCapability(writer, "xfs") })(k.t, k.env)
		for _, granted := range []mode{oneWorkload, reader} {
			req := publication(k.createVolume(withVolumeCapabilities(mountCapability(granted, "ext4"))).GetVolumeId())
			requireRefused(k.t, k.publish(req), codes.FailedPrecondition)
		}
		require.NoError(k.t, k.newMountedUse(k.createVolume(), mountCapability(writer, "ext4"), false).write("used as described"))
	}),
	"CSI-CTRL-ControllerPublishVolume-10": rowOf(readOnlyIsReadOnly),
	"CSI-CTRL-ControllerPublishVolume-11": rowOf(func(k *fixture) {
		publishRejected(codes.InvalidArgument, false, func(r *publishRequest) { r.VolumeContext = map[string]string{"not": "its own"} })(k.t, k.env)
		v := k.createVolume()
		req := publication(v.GetVolumeId())
		req.VolumeContext = v.GetVolumeContext()
		k.published(req)
		req.VolumeContext = nil
		require.NoError(k.t, k.publish(req))
	}),
	"CSI-CTRL-ControllerPublishVolume-12": rowOf(func(k *fixture) {
		total := 0
		for key, value := range k.published(publication(k.createVolume().GetVolumeId())) {
			total += len(key) + len(value)
		}
		require.Positive(k.t, total)
		require.LessOrEqual(k.t, total, 4096)
	}),
	"CSI-CTRL-ControllerPublishVolume-13": rowOf(samePublishContext),
	"CSI-CTRL-ControllerPublishVolume-14": rowOf(func(k *fixture) {
		req := publication(k.createVolume().GetVolumeId())
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
		func(r *publishRequest) { r.VolumeCapability = blockCapability(writer) },
		func(r *publishRequest) { r.VolumeCapability = mountCapability(reader, "ext4") }),
	"CSI-CTRL-ControllerPublishVolume-18": publishRejected(codes.AlreadyExists, true, func(r *publishRequest) { r.Readonly = true }),
	"CSI-CTRL-ControllerPublishVolume-19": publishRejected(codes.FailedPrecondition, true, func(r *publishRequest) { r.NodeId = "n2" }),
	"CSI-CTRL-ControllerPublishVolume-20": rowOf(func(k *fixture) {
		req := publication(k.createVolume().GetVolumeId())
		k.published(req)
		req.NodeId = "n2"
		err := k.publish(req)
		requireRefused(k.t, err, codes.FailedPrecondition)
		require.ErrorContains(k.t, err, "n1")
	}),
	"CSI-CTRL-ControllerPublishVolume-25": rowOf(func(k *fixture) {
		req := publication(k.createVolume().GetVolumeId())
		first := k.published(req)
		req.Secrets = map[string]string{"user": "u"}
		require.Equal(k.t, first, k.published(req))
		req.Secrets = map[string]string{"a b": "u"}
		requireRefused(k.t, k.publish(req), codes.InvalidArgument)
	}),
	"CSI-CTRL-ControllerPublishVolume-26": rowOf(func(k *fixture) { // newMountedUse stages at once, and only once
		for range 5 {
			require.NoError(k.t, k.newMountedUse(k.createVolume(), mountCapability(writer, "ext4"), false).write("at once"))
		}
	}),
}

// publishesAndEnds calls both halves at one controller.
func publishesAndEnds(k *fixture, c csi.ControllerClient) error {
	id := k.createVolume().GetVolumeId()
	if _, err := c.ControllerPublishVolume(k.ctx, publication(id)); err != nil {
		return err
	}
	require.Equal(k.t, []string{"n1"}, k.get(id).GetStatus().GetPublishedNodeIds())
	_, err := c.ControllerUnpublishVolume(k.ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: "n1"})
	require.Empty(k.t, k.get(id).GetStatus().GetPublishedNodeIds())
	return err
}

func samePublishContext(k *fixture) {
	req := publication(k.createVolume().GetVolumeId())
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

func readOnlyIsReadOnly(k *fixture) {
	require.True(k.t, controllerHas(csi.ControllerServiceCapability_RPC_PUBLISH_READONLY)(k, k.env.Conn(k.t, "c1")))
	u := k.newMountedUse(k.volumeWithText("before"), mountCapability(writer, "ext4"), true)
	require.ErrorIs(k.t, u.write("after"), syscall.EROFS)
	require.Equal(k.t, "before", u.read())
}

var disabledPublishRows = map[string]rowTest{
	"CSI-CTRL-ControllerPublishVolume-09": rowOf(func(k *fixture) {
		require.False(k.t, controllerHas(csi.ControllerServiceCapability_RPC_PUBLISH_READONLY)(k, k.disabledConn("c1")))
		c := k.disabledController()
		id := k.disabledVolume()
		req := publication(id)
		req.Readonly = true
		_, err := c.ControllerPublishVolume(k.ctx, req)
		requireRefused(k.t, err, codes.InvalidArgument)
		readOnlyIsReadOnly(k)
	}),
	"CSI-CTRL-ControllerPublishVolume-21": rowOf(func(k *fixture) {
		c := k.disabledController()
		for range maxPublished {
			k.disabledPublished(k.disabledVolume())
		}
		_, err := c.ControllerPublishVolume(k.ctx, publication(k.disabledVolume()))
		requireRefused(k.t, err, codes.ResourceExhausted)
	}),
}

// unpublishedOK makes a row: these calls are all OK, and leave one publication be.
func unpublishedOK(calls ...[2]string) rowTest {
	return rowOf(func(k *fixture) {
		id := k.createVolume().GetVolumeId()
		k.published(publication(id))
		idle := k.createVolume().GetVolumeId()
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
	"CSI-CTRL-ControllerUnpublishVolume-01": rowAlwaysServed(csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME, publishesAndEnds),
	"CSI-CTRL-ControllerUnpublishVolume-02": rowOf(func(k *fixture) {
		k.everyController(func(_ string, c csi.ControllerClient) { require.NoError(k.t, publishesAndEnds(k, c)) })
	}),
	"CSI-CTRL-ControllerUnpublishVolume-03": rowRefused(codes.InvalidArgument, func(k *fixture) error { return k.unpublish("", "n1") }),
	"CSI-CTRL-ControllerUnpublishVolume-04": unpublishedOK(),
	"CSI-CTRL-ControllerUnpublishVolume-05": rowOf(func(k *fixture) {
		id := k.createVolume().GetVolumeId()
		k.published(publication(id))
		require.NoError(k.t, k.unpublish(id, ""))
		require.Empty(k.t, k.listEntry(id).GetStatus().GetPublishedNodeIds())
	}),
	"CSI-CTRL-ControllerUnpublishVolume-06": unpublishedOK(),
	"CSI-CTRL-ControllerUnpublishVolume-07": unpublishedOK([2]string{unknownVolumeID, "n1"}, [2]string{"x", "nowhere"}, [2]string{unknownVolumeID, ""},
		[2]string{strings.Repeat("v", 128), strings.Repeat("n", 256)}),
	"CSI-CTRL-ControllerUnpublishVolume-10": rowOf(func(k *fixture) {
		id := k.createVolume(withVolumeCapabilities(mountCapability(writer, "ext4"), mountCapability(reader, "ext4"))).GetVolumeId()
		first := k.published(publication(id))
		require.NoError(k.t, k.unpublish(id, "n1"))
		other := publication(id)
		other.Readonly, other.VolumeCapability = true, mountCapability(reader, "ext4")
		require.NotEqual(k.t, first, k.published(other))
	}),
	"CSI-CTRL-ControllerUnpublishVolume-12": rowOf(func(k *fixture) {
		v := k.createVolume()
		u := k.newMountedUse(v, mountCapability(writer, "ext4"), false)
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
		requireRefused(k.t, k.publish(pub), codes.FailedPrecondition)
	}),
	"CSI-CTRL-ControllerUnpublishVolume-13": rowOf(func(k *fixture) {
		id := k.createVolume().GetVolumeId()
		for _, secrets := range []map[string]string{nil, {"user": "u"}} {
			k.published(publication(id))
			_, err := k.controller.ControllerUnpublishVolume(k.ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: "n1", Secrets: secrets})
			require.NoError(k.t, err)
			require.Empty(k.t, k.get(id).GetStatus().GetPublishedNodeIds())
		}
	}),
}

type validateRequest = csi.ValidateVolumeCapabilitiesRequest

func (k *fixture) validate(req *validateRequest) *csi.ValidateVolumeCapabilitiesResponse {
	k.t.Helper()
	res, err := k.controller.ValidateVolumeCapabilities(k.ctx, req)
	require.NoError(k.t, err)
	require.LessOrEqual(k.t, len(res.GetMessage()), 128)
	return res
}

func (k *fixture) validation(changes ...func(r *validateRequest)) *validateRequest {
	req := &validateRequest{VolumeId: k.createVolume().GetVolumeId(), VolumeCapabilities: []*csi.VolumeCapability{mountCapability(writer, "ext4")}}
	for _, c := range changes {
		c(req)
	}
	return req
}

// requireUnconfirmed makes a row: these are not confirmed, and the message says why.
func requireUnconfirmed(changes ...func(r *validateRequest)) rowTest {
	return rowOf(func(k *fixture) {
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
	return rowRefused(want, func(k *fixture) error {
		_, err := k.controller.ValidateVolumeCapabilities(k.ctx, k.validation(c))
		return err
	})
}

func about(caps ...*csi.VolumeCapability) func(r *validateRequest) {
	return func(r *validateRequest) { r.VolumeCapabilities = caps }
}

var validateRows = map[string]rowTest{
	"CSI-CTRL-ValidateVolumeCapabilities-02": requireUnconfirmed(about(mountCapability(writer, "ext4"), mountCapability(multiNodeMultiWriter, "ext4")), about(mountCapability(writer, "ext4"), blockCapability(writer))),
	"CSI-CTRL-ValidateVolumeCapabilities-03": rowOf(func(k *fixture) {
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
	"CSI-CTRL-ValidateVolumeCapabilities-06": requireUnconfirmed(func(r *validateRequest) { r.VolumeContext = map[string]string{"not": "its own"} }),
	"CSI-CTRL-ValidateVolumeCapabilities-07": requireUnconfirmed(func(r *validateRequest) { r.Parameters = map[string]string{"colour": "blue"} },
		func(r *validateRequest) { r.Parameters = map[string]string{"replicas": "7"} }),
	"CSI-CTRL-ValidateVolumeCapabilities-08": rowOf(func(k *fixture) {
		req := k.validation(about(mountCapability(writer, "ext4"), mountCapability(writer, "")))
		got := k.validate(req).GetConfirmed().GetVolumeCapabilities()
		require.Len(k.t, got, 2)
		for i, c := range req.GetVolumeCapabilities() {
			requireSame(k, c, got[i])
		}
	}),
	"CSI-CTRL-ValidateVolumeCapabilities-09": rowOf(func(k *fixture) {
		bare := k.validate(k.validation()).GetConfirmed()
		require.NotNil(k.t, bare)
		require.Empty(k.t, bare.GetVolumeContext())
		require.Empty(k.t, bare.GetParameters())
		given := map[string]string{"fsType": "ext4"}
		require.Equal(k.t, given, k.validate(k.validation(func(r *validateRequest) { r.Parameters = given })).GetConfirmed().GetParameters())
	}),
	"CSI-CTRL-ValidateVolumeCapabilities-10": rowOf(func(k *fixture) {
		requireUnconfirmed(about(mountCapability(multiNodeReader, "ext4")), about(blockCapability(writer)), about(mountCapability(writer, "xfs")))(k.t, k.env)
		one := k.createVolume(withVolumeCapabilities(mountCapability(reader, "ext4"))).GetVolumeId()
		require.Nil(k.t, k.validate(&validateRequest{VolumeId: one, VolumeCapabilities: []*csi.VolumeCapability{mountCapability(writer, "ext4")}}).GetConfirmed())
	}),
	"CSI-CTRL-ValidateVolumeCapabilities-11": requireUnconfirmed(func(r *validateRequest) { r.Parameters = map[string]string{strings.Repeat("k", 1000): "v"} },
		func(r *validateRequest) { r.Parameters = map[string]string{"replicas": strings.Repeat("ü", 500)} },
		func(r *validateRequest) { r.VolumeContext = map[string]string{strings.Repeat("k", 1000): "v"} }),
	"CSI-CTRL-ValidateVolumeCapabilities-12": validateRejected(codes.NotFound, func(r *validateRequest) { r.VolumeId = unknownVolumeID }),
}

var disabledValidateRows = map[string]rowTest{
	"CSI-CTRL-ValidateVolumeCapabilities-01": rowOf(func(k *fixture) {
		req := &validateRequest{VolumeId: k.disabledVolume(), VolumeCapabilities: []*csi.VolumeCapability{mountCapability(writer, "ext4")}}
		res, err := k.disabledController().ValidateVolumeCapabilities(k.ctx, req)
		require.NoError(k.t, err)
		require.NotNil(k.t, res.GetConfirmed())
	}),
}
