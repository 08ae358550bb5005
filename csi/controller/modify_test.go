package controller_test

import (
	"testing"
	"testing/synctest"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/csi/controller"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// stepFailure is a step that failed for good.
func stepFailure(why string, reason fsm.Reason) *fsmpb.StepFailed {
	return &fsmpb.StepFailed{Step: "grow", Error: why, Final: true, Reason: uint32(reason)}
}

func (w *env) limits(t testing.TB, id string) (limits fsm.Limits) {
	t.Helper()
	require.NoError(t, w.cluster.View(func(s *fsm.State) error {
		v, ok := s.Volume(fsm.VolumeID(id))
		require.True(t, ok)
		limits = v.Limits
		return nil
	}))
	return limits
}

// CSI-EXT-Modify-02..07: one case per rule, each asked twice.
func TestModifyVolume(t *testing.T) {
	was := fsm.Limits{ReadIOPS: 100, WriteIOPS: 50, ReadBPS: 1 << 20, WriteBPS: 1 << 20}
	const mib = 1 << 20
	for name, tc := range map[string]struct {
		id     string
		change map[string]string
		want   codes.Code
		limits fsm.Limits
	}{
		"-02: a limit for both":                     {"", mapOf("iopsLimit", "7"), codes.OK, fsm.Limits{ReadIOPS: 7, WriteIOPS: 7, ReadBPS: mib, WriteBPS: mib}},
		"-05: what is not named stays":              {"", mapOf("bandwidthLimit", "2Mi/3Ki"), codes.OK, fsm.Limits{ReadIOPS: 100, WriteIOPS: 50, ReadBPS: 2 * mib, WriteBPS: 3 << 10}},
		"-02: zero ends a limit":                    {"", mapOf("iopsLimit", "0/8"), codes.OK, fsm.Limits{WriteIOPS: 8, ReadBPS: mib, WriteBPS: mib}},
		"-02: both at once":                         {"", mapOf("iopsLimit", "1/2", "bandwidthLimit", "1Gi"), codes.OK, fsm.Limits{ReadIOPS: 1, WriteIOPS: 2, ReadBPS: 1 << 30, WriteBPS: 1 << 30}},
		"-04: parameters are required":              {"", nil, codes.InvalidArgument, was},
		"-06: an unknown key, nothing applied":      {"", mapOf("iopsLimit", "1", "zzz", "1"), codes.InvalidArgument, was},
		"-06: a bad value, nothing applied":         {"", mapOf("iopsLimit", "1", "bandwidthLimit", "x"), codes.InvalidArgument, was},
		"-06: parameters of creation are not these": {"", mapOf("fsType", "xfs"), codes.InvalidArgument, was},
		"-03: a volume is required":                 {"-", mapOf("iopsLimit", "1"), codes.InvalidArgument, was},
		"-07: an unknown volume":                    {unknownID, mapOf("iopsLimit", "1"), codes.NotFound, was},
		"-07: an id of another form":                {"non-existing-volume-id", mapOf("iopsLimit", "1"), codes.NotFound, was},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			// -08: what is mutable wins over the parameters.
			made := w.create(t, "v", createChanges(withParameters("iopsLimit", "9", "bandwidthLimit", "1Mi"), withMutable("iopsLimit", "100/50")))
			require.Equal(t, was, w.limits(t, made))
			id := made
			if tc.id != "" {
				id = tc.id
			}
			if id == "-" {
				id = ""
			}
			for range 2 {
				_, err := w.ControllerModifyVolume(t.Context(), &csi.ControllerModifyVolumeRequest{VolumeId: id, MutableParameters: tc.change})
				requireCode(t, tc.want, err)
				require.Equal(t, tc.limits, w.limits(t, made))
			}
		})
	}
}

// CSI-EXT-Modify-02: where the volume is staged, its host has put the limits in force.
func TestModifyVolumeWhereItIsStaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		id := w.create(t, "v", withMutable("iopsLimit", "5"))
		w.stage(t, id, t.TempDir(), w.publish(t, id, mount(writer, "")))
		modify := func(value string) error {
			ctx, cancel := shortDeadline(t)
			defer cancel()
			_, err := w.ControllerModifyVolume(ctx, &csi.ControllerModifyVolumeRequest{VolumeId: id, MutableParameters: mapOf("iopsLimit", value)})
			return err
		}
		inForce := func() uint64 {
			w.host.mu.Lock()
			defer w.host.mu.Unlock()
			return w.host.appliedLimits[fsm.VolumeID(id)].ReadIOPS
		}
		require.EqualValues(t, 5, inForce())
		for range 2 {
			require.NoError(t, modify("6"))
			require.EqualValues(t, 6, inForce())
		}
		w.host.update(func(h *fakeHost) { h.delayed = true })
		for range 2 {
			requireCode(t, codes.Aborted, modify("7"))
			require.EqualValues(t, 6, inForce())
		}
		w.host.update(func(h *fakeHost) { h.delayed = false })
		require.NoError(t, modify("7"))
		w.host.update(func(h *fakeHost) { h.fail = stepFailure("no such control group", fsm.Precondition) })
		requireCode(t, codes.FailedPrecondition, modify("8"))
		w.host.update(func(h *fakeHost) { h.fail = nil })
		require.NoError(t, modify("8"))
		require.EqualValues(t, 8, inForce())
	})
}

// CSI-EXT-Modify-09: mutable parameters are part of what makes two requests equal.
func TestMutableParametersAreCompared(t *testing.T) {
	w := newEnv(t)
	first := w.create(t, "v", withMutable("iopsLimit", "10/10"))
	require.Equal(t, first, w.create(t, "v", withMutable("iopsLimit", "10")))
	for _, other := range []func(*createReq){withMutable("iopsLimit", "11"), func(*createReq) {}} {
		_, err := w.CreateVolume(t.Context(), createRequest("v", other))
		requireCode(t, codes.AlreadyExists, err)
	}
}

// The capability row of each RPC: what is turned off is not advertised, UNIMPLEMENTED,
// and refused where it is part of another RPC (CSI-EXT-Modify-01, -09,
// CSI-CTRL-CreateVolume-24, CSI-EXT-GetSnapshot-01).
func TestDisabledCapabilities(t *testing.T) {
	type rpc = csi.ControllerServiceCapability_RPC_Type
	off := []rpc{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT, csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_GET_SNAPSHOT, csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME, csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
	}
	w := newEnv(t)
	s := controller.New(w.cluster, off...)
	resp, err := s.ControllerGetCapabilities(t.Context(), &csi.ControllerGetCapabilitiesRequest{})
	require.NoError(t, err)
	for _, c := range resp.GetCapabilities() {
		require.NotContains(t, off, c.GetRpc().GetType())
	}
	for _, capability := range off {
		require.True(t, controller.IsSupported(capability))
	}
	ctx := t.Context()
	_, err = s.CreateSnapshot(ctx, &snapshotReq{})
	requireCode(t, codes.Unimplemented, err)
	_, err = s.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{})
	requireCode(t, codes.Unimplemented, err)
	_, err = s.ListSnapshots(ctx, &csi.ListSnapshotsRequest{})
	requireCode(t, codes.Unimplemented, err)
	_, err = s.GetSnapshot(ctx, &csi.GetSnapshotRequest{})
	requireCode(t, codes.Unimplemented, err)
	_, err = s.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{})
	requireCode(t, codes.Unimplemented, err)
	_, err = s.ControllerModifyVolume(ctx, &csi.ControllerModifyVolumeRequest{})
	requireCode(t, codes.Unimplemented, err)
	for _, change := range []func(*createReq){withSource(fromSnapshot(unknownSnapshot)), withSource(fromVolume(unknownID)), withMutable("iopsLimit", "1")} {
		_, err = s.CreateVolume(ctx, createRequest("v", change))
		requireCode(t, codes.InvalidArgument, err)
	}
}

// CSI-EXT-Modify-02: the resizer's extra metadata are no parameters; the claim that they name is kept.
func TestModifyVolumeKeepsTheClaim(t *testing.T) {
	const pre = "csi.storage.k8s.io/"
	w := newEnv(t)
	id := w.create(t, "v", withParameters(pre+"pvc/name", "data", pre+"pvc/namespace", "shop", pre+"pv/name", "pv-1"))
	claim := func() (c fsm.Claim) {
		require.NoError(t, w.cluster.View(func(s *fsm.State) error {
			v, _ := s.Volume(fsm.VolumeID(id))
			c = *v.Claim
			return nil
		}))
		return c
	}
	require.Equal(t, fsm.Claim{Name: "data", Namespace: "shop", Volume: "pv-1"}, claim())
	for range 2 {
		_, err := w.ControllerModifyVolume(t.Context(), &csi.ControllerModifyVolumeRequest{VolumeId: id, MutableParameters: mapOf(
			"iopsLimit", "7", pre+"pvc/name", "moved", pre+"pvc/namespace", "shop", pre+"pv/name", "pv-1")})
		require.NoError(t, err)
		require.Equal(t, fsm.Claim{Name: "moved", Namespace: "shop", Volume: "pv-1"}, claim())
		require.EqualValues(t, 7, w.limits(t, id).ReadIOPS)
	}
}
