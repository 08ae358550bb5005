package admin

import (
	"context"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// logCluster is the real log, in an operator's name.
type logCluster struct {
	forkCluster
	w     *env
	actor string
}

func (c *logCluster) Actor() string { return c.actor }

func (c *logCluster) Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	cmd.Actor = c.actor
	return c.w.Propose(ctx, cmd)
}

// callsOf stands for csi/controller, which this package does not import: it proposes what that does, and waits for nobody.
type callsOf struct {
	csi.UnimplementedControllerServer
	on CSICluster
}

func (c callsOf) DeleteVolume(ctx context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	_, err := c.on.Propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_DeleteVolume{DeleteVolume: &fsmpb.DeleteVolume{VolumeId: req.GetVolumeId()}}})
	return nil, grpcError(err)
}

func (c callsOf) ControllerPublishVolume(ctx context.Context, req *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	out, err := c.on.Propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_PublishVolume{PublishVolume: &fsmpb.PublishVolume{
		VolumeId: req.GetVolumeId(), NodeId: req.GetNodeId(), Capability: capability()}}})
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{"epoch": fsm.EpochFrom(out.GetEpoch()).String()}}, grpcError(err)
}

func (c callsOf) ControllerUnpublishVolume(ctx context.Context, req *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	_, err := c.on.Propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: req.GetVolumeId(), NodeId: req.GetNodeId()}}})
	return nil, grpcError(err)
}

func newVolumesEnv(t *testing.T) *env {
	w := newEnv(t, "n1")
	w.server.VolumeCalls = &VolumeCalls{
		Cluster:    func(actor, site string) CSICluster { return &logCluster{w: w, actor: actor} },
		Controller: func(on CSICluster) csi.ControllerServer { return callsOf{on: on} },
		Check:      func(proto.Message) error { return nil },
	}
	return w
}

// makeMine creates a volume in an operator's name.
func (w *env) makeMine(n int) fsm.VolumeID {
	w.t.Helper()
	id := w.create(n, false)
	w.delete(id)
	cmd := proto.CloneOf(w.log[len(w.log)-2].Command)
	cmd.Actor = "admin/alice"
	cmd.GetCreateVolume().VolumeId = strings.Replace(string(id), "8000", "9000", 1)
	w.mustApply(cmd)
	w.observe(&fsmpb.Observation{VolumeId: cmd.GetCreateVolume().GetVolumeId(), Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}})
	return fsm.VolumeID(cmd.GetCreateVolume().GetVolumeId())
}

func TestAPlanOfAVolumeChangesNothingAndTheChangeDoesIt(t *testing.T) {
	w := newVolumesEnv(t)
	id := string(w.makeMine(1))
	req := &adminpb.VolumeChangeRequest{Verb: "publish", Volume: "pvc-1", Node: "n1"}
	before := w.index
	for range 2 {
		plan, err := w.server.PlanVolume(ctx, req)
		require.NoError(t, err)
		require.Equal(t, stepTodo, plan.GetSteps()[0].GetState())
		require.Empty(t, plan.GetPublishContext(), "of an epoch that the log does not have")
		require.Equal(t, before, w.index)
	}
	var contexts []string
	for range 2 {
		done, err := w.server.ChangeVolume(ctx, req)
		require.NoError(t, err)
		require.True(t, done.GetDone())
		require.Equal(t, "admin/alice", w.log[len(w.log)-1].Command.GetActor())
		require.Equal(t, codes.OK.String(), done.GetCsiCode())
		contexts = append(contexts, done.GetPublishContext()[0].GetValue())
	}
	require.Equal(t, contexts[0], contexts[1])
	blocked, err := w.server.ChangeVolume(ctx, &adminpb.VolumeChangeRequest{Verb: "delete", Volume: id})
	require.NoError(t, err)
	require.Equal(t, stepBlocked, blocked.GetSteps()[0].GetState(), "it is published")
	require.Contains(t, blocked.GetSteps()[0].GetDetail(), "published to node n1")
	require.Equal(t, codes.FailedPrecondition.String(), blocked.GetCsiCode())
}

func TestAnExpansionToLessSaysWhatTheVolumeHas(t *testing.T) {
	x := volumeChange{req: &adminpb.VolumeChangeRequest{Verb: "expand", SizeBytes: 1 << 20}}
	require.NoError(t, x.expand(&fsm.Volume{Size: 1 << 30}))
	require.Equal(t, "it has 1 GiB; volumes never shrink", x.step.detail)
}

func TestWhichChangesOfVolumesAreRefused(t *testing.T) {
	w := newVolumesEnv(t)
	mine, theirs := string(w.makeMine(1)), string(w.create(2, true))
	for name, tc := range map[string]struct {
		req   *adminpb.VolumeChangeRequest
		code  codes.Code
		state string
		csi   string // the code of CSI's answer; empty: it was not asked
	}{
		"a deletion by name":               {req: &adminpb.VolumeChangeRequest{Verb: "delete", Volume: "pvc-1"}, code: codes.InvalidArgument},
		"an unknown name":                  {req: &adminpb.VolumeChangeRequest{Verb: "publish", Volume: "nobody", Node: "n1"}, code: codes.NotFound},
		"an unknown node":                  {req: &adminpb.VolumeChangeRequest{Verb: "publish", Volume: mine, Node: "n9"}, code: codes.NotFound},
		"an orchestrator's":                {req: &adminpb.VolumeChangeRequest{Verb: "delete", Volume: theirs}, state: stepBlocked},
		"a name that an orchestrator took": {req: &adminpb.VolumeChangeRequest{Verb: "create", Volume: "pvc-2", SizeBytes: 1 << 30}, state: stepBlocked},
		"what is gone":                     {req: &adminpb.VolumeChangeRequest{Verb: "delete", Volume: strings.Replace(mine, "9000", "a000", 1)}, state: stepDone, csi: "OK"},
	} {
		t.Run(name, func(t *testing.T) {
			before := w.index
			for range 2 {
				resp, err := w.server.ChangeVolume(ctx, tc.req)
				require.Equal(t, tc.code, status.Code(err), err)
				if tc.state != "" {
					require.Equal(t, tc.state, resp.GetSteps()[0].GetState())
				}
				require.Equal(t, tc.csi, resp.GetCsiCode())
				require.Equal(t, before, w.index, "nothing was proposed")
			}
		})
	}
	for _, bad := range []*adminpb.VolumeChangeRequest{{Verb: "format", Volume: mine}, {Verb: "publish", Volume: mine}, {Verb: "create"}, {Verb: "create", Volume: "x"},
		{Verb: "expand", Volume: mine}, {Verb: "create", Volume: "x", SizeBytes: 1, Block: true, FsType: "xfs"}, {Verb: "create", Volume: "x", FromVolume: "a", FromSnapshot: "b"}} {
		_, err := w.server.PlanVolume(ctx, bad)
		require.Error(t, err, bad)
	}
	v, _ := w.state.Volume(fsm.VolumeID(theirs))
	node := string(v.Replicas[0].Node)
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_PublishVolume{PublishVolume: &fsmpb.PublishVolume{VolumeId: theirs, NodeId: node,
		Capability: &fsmpb.Capability{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: v.FSType()}}}})
	for range 2 {
		before := w.index
		resp, err := w.server.ChangeVolume(ctx, &adminpb.VolumeChangeRequest{Verb: "unpublish", Volume: theirs, Node: node, EvenIfOrchestrated: true, OperatorsOnly: true})
		require.NoError(t, err)
		require.True(t, resp.GetDone())
		require.Equal(t, before, w.index, "an orchestrator's publication is left")
	}
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: theirs, NodeId: node}}})
	resp, err := w.server.ChangeVolume(ctx, &adminpb.VolumeChangeRequest{Verb: "delete", Volume: theirs, EvenIfOrchestrated: true})
	require.NoError(t, err)
	require.True(t, resp.GetDone())
}

// Whose volume it is and what the caller sets, the role operator ends no orchestrator's publication, also one that came
// after the plan; an admin does when told to.
func TestWhoEndsAnOrchestratorsPublication(t *testing.T) {
	w := newVolumesEnv(t)
	mine := string(w.makeMine(1))
	publish := func(actor string) {
		w.mustApply(&fsmpb.Command{Actor: actor, Body: &fsmpb.Command_PublishVolume{PublishVolume: &fsmpb.PublishVolume{VolumeId: mine, NodeId: "n1", Capability: capability()}}})
	}
	unpublish := func(actor string, flagged bool) *adminpb.VolumeChangeResponse {
		w.server.Actor = func(context.Context) (string, error) { return actor, nil }
		resp, err := w.server.ChangeVolume(ctx, &adminpb.VolumeChangeRequest{Verb: "unpublish", Volume: mine, Node: "n1", EvenIfOrchestrated: flagged})
		require.NoError(t, err)
		return resp
	}
	publish("controller/c1")
	for _, tc := range []struct {
		actor   string
		flagged bool
		says    string
	}{{"operator/ann", false, "an admin may end"}, {"operator/ann", true, "an admin may end"}, {"admin/alice", false, "--even-if-orchestrated"}} {
		for range 2 {
			before := w.index
			resp := unpublish(tc.actor, tc.flagged)
			require.Equal(t, stepBlocked, resp.GetSteps()[0].GetState())
			require.Contains(t, resp.GetSteps()[0].GetDetail(), tc.says)
			require.Equal(t, before, w.index, "nothing was proposed")
		}
	}
	for range 2 {
		require.True(t, unpublish("admin/alice", true).GetDone())
	}

	publish("operator/ann")
	cluster := w.server.VolumeCalls.Cluster
	w.server.VolumeCalls.Cluster = func(actor, site string) CSICluster { // between the plan and the call
		w.mustApply(&fsmpb.Command{Actor: "operator/ann", Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: mine, NodeId: "n1"}}})
		publish("controller/c1")
		return cluster(actor, site)
	}
	require.Equal(t, stepBlocked, unpublish("operator/ann", false).GetSteps()[0].GetState())
	v, _ := w.state.Volume(fsm.VolumeID(mine))
	require.Len(t, v.Publications(), 1)
	require.Empty(t, v.Publications()[0].MadeBy)
	w.server.VolumeCalls.Cluster = cluster
	require.True(t, unpublish("admin/alice", true).GetDone())
	publish("operator/ann")
	require.True(t, unpublish("operator/ann", false).GetDone(), "its own")
}
