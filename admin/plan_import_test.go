package admin

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const importFSUUID = "0f3b8c1a-0000-4000-8000-00000000000a"

// newImportEnv has a host whose pool is one of LVM's, beside a logical volume.
func newImportEnv(t *testing.T) *env {
	w := newReplicatedEnv(t, "n1")
	n, _ := w.state.Node("n1")
	r := &fsmpb.RegisterNode{NodeId: "n1", HostId: string(n.Host), BootId: n.Boot, FeatureLevel: fsm.MaxFeatureLevel}
	for _, p := range n.Pools {
		r.Pools = append(r.Pools, &fsmpb.Pool{PoolId: string(p.ID), Backend: "lvm", CapacityBytes: p.Capacity, OvercommitPercent: p.OvercommitPercent})
	}
	w.mustApply(&fsmpb.Command{Actor: "node/n1", Body: &fsmpb.Command_RegisterNode{RegisterNode: r}})
	w.candidates = []*fsmpb.ImportCandidate{{
		PoolId: r.Pools[0].PoolId, DeviceId: "uuid-1", DeviceName: "data_00000", SizeBytes: 20 << 20, Active: true, Probed: true,
		FsType: "ext4", FsUuid: importFSUUID, Signatures: []string{"ext4"},
	}}
	return w
}

func importRequest() *adminpb.PlanRequest {
	return &adminpb.PlanRequest{Verb: importLV, Node: "n1", Device: "vg/data_00000", Volume: "data"}
}

// The plan shows what is imported, and what is carried out is that and nothing else. Repeated, it says how far it is.
func TestAnImportIsPlannedAndCarriedOut(t *testing.T) {
	w := newImportEnv(t)
	n, _ := w.state.Node("n1")
	boot := n.Boot
	req := importRequest()
	plan := w.plan(req)
	require.Equal(t, []string{"todo import data@n1", "follows rename data@n1", "follows not-known data@n1"}, planText(plan))
	require.Contains(t, plan.GetSteps()[0].GetDetail(), "ext4 "+importFSUUID+" on it, not open")
	require.Equal(t, "uuid-1", plan.GetDeviceId())

	req.HostId = plan.GetHostId()
	_, err := w.server.CarryOut(context.Background(), req)
	require.Equal(t, codes.InvalidArgument, status.Code(err), "without the device's id")
	req.DeviceId = "uuid-2"
	_, err = w.server.CarryOut(context.Background(), req)
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "it was replaced")
	req.DeviceId = "uuid-1"
	for _, want := range []string{"done import data@n1", "waiting import data@n1", "waiting import data@n1"} {
		resp, err := w.server.CarryOut(context.Background(), req)
		require.NoError(t, err)
		require.Equal(t, want, planText(resp)[0])
	}
	v := w.state.VolumeNamed("data")
	require.Equal(t, fsm.Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, FSType: "ext4", FSUUID: importFSUUID}, v.Format)
	w.mustApply(&fsmpb.Command{Actor: "node/n1", Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n1", HostId: plan.GetHostId(), BootId: boot, Observations: []*fsmpb.Observation{{
		VolumeId: string(v.ID), Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: v.Size}},
	}}}}})
	w.candidates = nil // it is Holdfast's by now
	require.Equal(t, []string{"done import data@n1"}, planText(w.plan(req)))

	forget := &adminpb.PlanRequest{Verb: forgetImport, Volume: "data"}
	plan = w.plan(forget)
	require.Equal(t, []string{"todo forget data@n1"}, planText(plan))
	_, err = w.server.CarryOut(context.Background(), forget)
	require.Equal(t, codes.InvalidArgument, status.Code(err), "without the host's id")
	forget.HostId, forget.Volume = plan.GetHostId(), string(v.ID)
	for _, want := range []string{"done forget data@n1", "waiting forget data@n1"} {
		resp, err := w.server.CarryOut(context.Background(), forget)
		require.NoError(t, err)
		require.Equal(t, want, planText(resp)[0])
	}
	w.mustApply(&fsmpb.Command{Actor: "node/n1", Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n1", HostId: plan.GetHostId(), BootId: boot, Observations: []*fsmpb.Observation{{
		VolumeId: string(v.ID), Fact: &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}},
	}}}}})
	require.True(t, w.plan(forget).GetDone())
}

func TestAnImportIsBlockedWithItsReason(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(c *fsmpb.ImportCandidate, req *adminpb.PlanRequest)
		want   string // empty: it may be imported
	}{
		"mounted":            {func(c *fsmpb.ImportCandidate, _ *adminpb.PlanRequest) { c.OpenCount, c.Mounts = 1, []string{"/srv"} }, "mounted at /srv"},
		"open":               {func(c *fsmpb.ImportCandidate, _ *adminpb.PlanRequest) { c.OpenCount = 2 }, "end what uses it"},
		"not in the pool":    {func(c *fsmpb.ImportCandidate, _ *adminpb.PlanRequest) { c.Refusal = "it is no thin volume" }, "no thin volume"},
		"not read":           {func(c *fsmpb.ImportCandidate, _ *adminpb.PlanRequest) { c.Probed, c.Detail = false, "it is not active" }, "it is not active"},
		"an odd size":        {func(c *fsmpb.ImportCandidate, _ *adminpb.PlanRequest) { c.SizeBytes += 512 }, "multiple"},
		"empty":              {func(c *fsmpb.ImportCandidate, _ *adminpb.PlanRequest) { c.FsType, c.FsUuid, c.Signatures = "", "", nil }, "--block"},
		"another filesystem": {func(c *fsmpb.ImportCandidate, _ *adminpb.PlanRequest) { c.FsType, c.Signatures = "", []string{"btrfs"} }, "--block"},
		"two signatures":     {func(c *fsmpb.ImportCandidate, _ *adminpb.PlanRequest) { c.Signatures = []string{"dos", "ext4"} }, "--block"},
		"of DRBD 9":          {func(c *fsmpb.ImportCandidate, _ *adminpb.PlanRequest) { c.Drbd = &fsmpb.DrbdMetadata{Format: 9} }, "`holdfast import drbd`"},
		"LUKS": {func(c *fsmpb.ImportCandidate, _ *adminpb.PlanRequest) {
			c.FsType, c.Signatures = "", []string{"crypto_LUKS"}
		}, "--block"},
		"LUKS, raw": {func(c *fsmpb.ImportCandidate, r *adminpb.PlanRequest) {
			c.FsType, c.Signatures, r.Block = "", []string{"crypto_LUKS"}, true
		}, ""},
		"ext4, raw": {func(_ *fsmpb.ImportCandidate, r *adminpb.PlanRequest) { r.Block = true }, ""},
		"a physical volume": {func(c *fsmpb.ImportCandidate, r *adminpb.PlanRequest) {
			c.FsType, c.Signatures, r.Block = "", []string{"LVM2_member"}, true
		}, "part of something else"},
		"a RAID's": {func(c *fsmpb.ImportCandidate, r *adminpb.PlanRequest) {
			c.FsType, c.Signatures, r.Block = "", []string{"linux_raid_member"}, true
		}, "part of something else"},
		"swap": {func(c *fsmpb.ImportCandidate, r *adminpb.PlanRequest) {
			c.FsType, c.Signatures, r.Block = "", []string{"swap"}, true
		}, "part of something else"},
		"a DRBD resource's": {func(c *fsmpb.ImportCandidate, r *adminpb.PlanRequest) {
			c.Signatures, r.Block = []string{"drbd", "ext4"}, true
		}, "part of something else"},
		"a name that is taken": {func(_ *fsmpb.ImportCandidate, r *adminpb.PlanRequest) { r.Volume = "pvc-1" }, "has that name"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newImportEnv(t)
			w.create(1, false)
			req := importRequest()
			tc.change(w.candidates[0], req)
			s := w.plan(req).GetSteps()[0]
			if tc.want == "" {
				require.Equal(t, stepTodo, s.GetState(), s.GetDetail())
				return
			}
			require.Equal(t, stepBlocked, s.GetState())
			require.Contains(t, s.GetDetail(), tc.want)
		})
	}
}

func TestAnImportOfWhatTheHostDoesNotHave(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *env, req *adminpb.PlanRequest)
		code   codes.Code
		want   string
	}{
		"no such device": {func(_ *env, r *adminpb.PlanRequest) { r.Device = "other" }, codes.NotFound, "it has data_00000"},
		"no such pool":   {func(_ *env, r *adminpb.PlanRequest) { r.Pool = "other" }, codes.NotFound, "no logical volume"},
		"no name":        {func(_ *env, r *adminpb.PlanRequest) { r.Volume = "" }, codes.FailedPrecondition, "name the volume"},
		"another host":   {func(_ *env, r *adminpb.PlanRequest) { r.HostId = "other" }, codes.FailedPrecondition, "look at the plan again"},
		"one in each of two": {func(w *env, _ *adminpb.PlanRequest) {
			w.candidates = append(w.candidates, &fsmpb.ImportCandidate{DeviceName: "data_00000", PoolId: "p2"})
		}, codes.FailedPrecondition, "--pool"},
		"a volume of its own": {func(w *env, r *adminpb.PlanRequest) { w.create(1, false); r.Verb, r.Volume = forgetImport, "pvc-1" }, codes.FailedPrecondition, "was not imported"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newImportEnv(t)
			req := importRequest()
			tc.change(w, req)
			_, err := w.server.Plan(context.Background(), req)
			require.Equal(t, tc.code, status.Code(err), err)
			require.ErrorContains(t, err, tc.want)
		})
	}
}
