package admin

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// planText formats each step as "state action name@node".
func planText(p *adminpb.PlanResponse) []string {
	return mapSlice(p.GetSteps(), func(s *adminpb.PlanStep) string {
		return strings.TrimSpace(s.GetState() + " " + s.GetAction() + " " + cmp.Or(s.GetVolumeName(), s.GetSnapshotName()) + "@" + s.GetNode())
	})
}

// plan makes the plan twice and requires equal answers: a plan changes nothing.
func (w *env) plan(req *adminpb.PlanRequest) *adminpb.PlanResponse {
	w.t.Helper()
	before := w.state.Hash()
	var resp *adminpb.PlanResponse
	for range 2 {
		var err error
		resp, err = w.server.Plan(context.Background(), req)
		require.NoError(w.t, err)
		require.Equal(w.t, before, w.state.Hash())
		require.Equal(w.t, w.index, resp.GetIndex())
	}
	return resp
}

func (w *env) carryOut(req *adminpb.PlanRequest) *adminpb.PlanResponse {
	w.t.Helper()
	if req.GetHostId() == "" { // as the plan shows it
		req = proto.CloneOf(req)
		req.HostId = w.plan(req).GetHostId()
	}
	resp, err := w.server.CarryOut(context.Background(), req)
	require.NoError(w.t, err)
	require.NoError(w.t, w.state.Check())
	return resp
}

func TestDrainCordonsAndSaysWhatMustMove(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	id := w.replicate(1)
	w.publish(id)
	w.stage(w.create(2, true), "/stage/2") // on n1, which has its only replica
	req := &adminpb.PlanRequest{Verb: "drain", Node: "n1"}
	plan := w.plan(req)
	require.Equal(t, []string{"todo cordon @n1", "waiting move pvc-1@n1", "waiting move pvc-2@n1", "follows away pvc-2@n1"}, planText(plan))
	require.Contains(t, plan.GetSteps()[1].GetDetail(), "it can move to n2")
	require.Contains(t, plan.GetSteps()[2].GetDetail(), "staged here and has no replica elsewhere")
	for range 2 {
		require.Equal(t, []string{"done cordon @n1", "waiting move pvc-1@n1", "waiting move pvc-2@n1", "follows away pvc-2@n1"}, planText(w.carryOut(req)))
	}
	n, _ := w.state.Node("n1")
	require.True(t, n.Cordoned)
	require.Len(t, w.volume(id).Publications(), 1, "no publication ends")
	undrain := &adminpb.PlanRequest{Verb: "undrain", Node: "n1"}
	require.Equal(t, []string{"todo uncordon @n1"}, planText(w.plan(undrain)))
	for range 2 {
		require.True(t, w.carryOut(undrain).GetDone())
	}
	n, _ = w.state.Node("n1")
	require.False(t, n.Cordoned)
}

func TestEvictMovesReplicasAndContinuesWhereItEnded(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	id := w.replicate(1)
	req := &adminpb.PlanRequest{Verb: "evict", Node: "n1"}
	t.Run("without room elsewhere nothing is given up", func(t *testing.T) {
		for range 2 {
			plan := w.plan(req)
			require.Equal(t, "blocked remove-replica pvc-1@n1", planText(plan)[1])
			require.Contains(t, plan.GetSteps()[1].GetDetail(), "there is no place for another replica: no second host")
			require.Equal(t, []string{"blocked remove-replica pvc-1@n1"}, planText(w.carryOut(req))[1:])
		}
		require.Len(t, w.volume(id).ActiveReplicas(), 2)
	})
	w.register("n3")
	t.Run("what is published waits for the orchestrator", func(t *testing.T) {
		epoch := w.publish(id)
		require.Equal(t, []string{"done cordon @n1", "waiting move pvc-1@n1"}, planText(w.carryOut(req)))
		w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_UnpublishVolume{
			UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: string(id), NodeId: "n1", Epoch: epoch}}})
	})
	w.connectReplicas(id, "n1", "n2")
	require.Equal(t, []string{"done cordon @n1", "todo remove-replica pvc-1@n1", "todo add-replica pvc-1@n3"}, planText(w.plan(req)))
	require.Equal(t, []string{"done cordon @n1", "done remove-replica pvc-1@n1", "done add-replica pvc-1@n3"}, planText(w.carryOut(req)))
	require.Equal(t, []string{"done cordon @n1", "waiting remove-replica pvc-1@n1"}, planText(w.carryOut(req)))
	w.reportReplica("n1", id, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}})
	w.attach("n3", id)
	w.connectReplicas(id, "n2", "n3")
	require.True(t, w.carryOut(req).GetDone())
	require.Nil(t, w.volume(id).Operation)
}

func TestEvictContinuesAfterAnInterruption(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2", "n3")
	w.create(2, true) // its only replica is on n1
	id := w.replicate(1)
	w.mustApply(&fsmpb.Command{Actor: "admin/a", Body: &fsmpb.Command_RemoveReplica{RemoveReplica: &fsmpb.RemoveReplica{
		VolumeId: string(id), NodeId: "n1", HostId: "host-n1"}}})
	req := &adminpb.PlanRequest{Verb: "evict", Node: "n1"}
	require.Equal(t, []string{"todo cordon @n1", "waiting remove-replica pvc-1@n1", "blocked keep pvc-2@n1", "todo add-replica pvc-1@n3"}, planText(w.plan(req)))
	w.carryOut(req)
	require.NotNil(t, w.volume(id).Replica("host-n3"))
}

func TestLostPlanListsTheLosses(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2", "n3")
	w.snapshot(w.create(2, true), true)
	w.publish(w.replicate(1))
	req := &adminpb.PlanRequest{Verb: "lost", Node: "n1", Reason: "burnt", EvenIfReachable: true}
	plan := w.plan(req)
	require.Equal(t, []string{"todo lose @n1", "follows volume pvc-1@n1", "follows volume pvc-2@n1", "follows snapshots @n1"}, planText(plan))
	require.Contains(t, plan.GetSteps()[0].GetDetail(), "IT CAN BE REACHED NOW")
	require.Contains(t, plan.GetSteps()[1].GetDetail(), "its publication here ends; it goes on with its replica on n2")
	require.Contains(t, plan.GetSteps()[2].GetDetail(), "ITS DATA ARE LOST")
	require.Contains(t, plan.GetSteps()[3].GetDetail(), "1 snapshots")
	w.carryOut(req)
	last := w.log[len(w.log)-1].Command
	require.Equal(t, "admin/alice", last.GetActor())
	require.Equal(t, "burnt", last.GetLoseNode().GetReason())
	require.True(t, w.carryOut(req).GetDone())
}

// S71: the plan says that the replica that was being removed is the only one left.
func TestLostPlanNamesTheRestoredReplica(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	id := w.replicate(1)
	w.mustApply(&fsmpb.Command{Actor: "admin/a", Body: &fsmpb.Command_RemoveReplica{RemoveReplica: &fsmpb.RemoveReplica{
		VolumeId: string(id), NodeId: "n2", HostId: "host-n2"}}})
	plan := w.plan(&adminpb.PlanRequest{Verb: "lost", Node: "n1", EvenIfReachable: true})
	require.Contains(t, plan.GetSteps()[1].GetDetail(), "the one on n2, which was given up")
	w.carryOut(&adminpb.PlanRequest{Verb: "lost", Node: "n1", EvenIfReachable: true})
	require.Equal(t, fsm.ReplicaPresent, w.volume(id).Replica("host-n2").State)
}

func TestReplaceMakesNewReplicasAndNeverLosesTheNewHost(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	id := w.replicate(1)
	w.setUnreachable("n1")
	req := &adminpb.PlanRequest{Verb: "replace", Node: "n1"}
	require.Equal(t, []string{"todo lose @n1", "follows volume pvc-1@n1", "blocked add-replica pvc-1@-"}, planText(w.plan(req)))
	w.carryOut(req)
	w.mustApply(&fsmpb.Command{Actor: "node/n1", Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
		NodeId: "n1", HostId: "host-new", BootId: "boot", FeatureLevel: fsm.MaxFeatureLevel,
		Pools:       []*fsmpb.Pool{{PoolId: "pool-new", Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 100}},
		Replication: &fsmpb.Replication{Address: "192.0.2.1", PublicKey: make([]byte, 32), Version: "8.4.11", MaxReplicas: 2}}}})
	require.Equal(t, []string{"done lose @n1", "todo add-replica pvc-1@n1"}, planText(w.plan(req)))
	for range 2 {
		w.carryOut(req)
		n, _ := w.state.Node("n1")
		require.Equal(t, fsm.NodeReachable, n.State, "the new host stays")
	}
	require.NotNil(t, w.volume(id).Replica("host-new"))
}

// S17, S71: repeated after another host registered under the node's id, no verb does anything to that host.
func TestS71_RepeatedVerbSparesTheSuccessor(t *testing.T) {
	for verb, want := range map[string]string{
		"lost": "done lose @n1", "replace": "done lose @n1", "drain": "", "undrain": "", "evict": "", "adopt": "",
	} {
		t.Run(verb, func(t *testing.T) {
			w := newReplicatedEnv(t, "n1", "n2")
			w.replicate(1)
			w.setUnreachable("n1")
			lost := &adminpb.PlanRequest{Verb: "lost", Node: "n1", HostId: "host-n1"}
			require.Equal(t, "done lose @n1", planText(w.carryOut(lost))[0])
			again := w.registration("n1")
			again.HostId, again.Pools[0].PoolId = "host-new", "pool-new"
			w.mustApply(&fsmpb.Command{Actor: "node/n1", Body: &fsmpb.Command_RegisterNode{RegisterNode: again}})
			before, _ := w.state.Node("n1")
			req := &adminpb.PlanRequest{Verb: verb, Node: "n1", HostId: "host-n1"}
			for range 2 {
				resp, err := w.server.CarryOut(context.Background(), req)
				if want == "" {
					require.Equal(t, codes.FailedPrecondition, status.Code(err))
				} else {
					require.Equal(t, want, planText(resp)[0])
				}
			}
			after, _ := w.state.Node("n1")
			require.Equal(t, *before, *after)
		})
	}
}

// S71: a reachable host is recorded as lost only with --even-if-reachable.
func TestS71_ReachableHostIsNotLost(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	for _, verb := range []string{"lost", "replace"} {
		req := &adminpb.PlanRequest{Verb: verb, Node: "n1", HostId: "host-n1"}
		plan := w.plan(req)
		require.Contains(t, plan.GetSteps()[0].GetDetail(), "can be reached now: nothing is lost")
		w.carryOut(req)
		n, _ := w.state.Node("n1")
		require.Equal(t, fsm.NodeReachable, n.State)
	}
	_, err := w.server.CarryOut(context.Background(), &adminpb.PlanRequest{Verb: "lost", Node: "n1", EvenIfReachable: true})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorContains(t, err, "host-n1")
	w.carryOut(&adminpb.PlanRequest{Verb: "replace", Node: "n1", EvenIfReachable: true})
	n, _ := w.state.Node("n1")
	require.Equal(t, fsm.NodeLost, n.State)
}

func TestS8_ForcePrimarySaysWhatMayBeLost(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	id := w.replicate(1)
	req := &adminpb.PlanRequest{Verb: "force-primary", Volume: "pvc-1", Node: "n2", Reason: "n1 burnt"}
	w.publish(id)
	t.Run("not while the other host can be reached", func(t *testing.T) {
		require.Equal(t, []string{"blocked force-primary pvc-1@n2"}, planText(w.plan(req)))
		require.Equal(t, []string{"blocked force-primary pvc-1@n2"}, planText(w.carryOut(req)))
	})
	w.setUnreachable("n1")
	w.observeReplica("n2", id, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING)
	t.Run("not without a word on the other host", func(t *testing.T) {
		require.Equal(t, []string{"blocked force-primary pvc-1@n2"}, planText(w.plan(req)))
	})
	req.PeerDead = true
	plan := w.plan(req)
	require.Equal(t, []string{"todo force-primary pvc-1@n2", "follows replica pvc-1@n1", "follows publish pvc-1@n2"}, planText(plan))
	require.Nil(t, w.volume(id).Replication.Forced)
	w.carryOut(req)
	require.NotNil(t, w.volume(id).Replication.Forced)
	require.Equal(t, "n1 burnt", w.volume(id).Replication.Forced.Reason)
	require.True(t, w.carryOut(req).GetDone())
}

func TestPlansAreRefusedForWhatIsNotThere(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	w.create(1, true)
	for name, tc := range map[string]struct {
		req  *adminpb.PlanRequest
		want codes.Code
	}{
		"a verb":                              {&adminpb.PlanRequest{Verb: "explode", Node: "n1"}, codes.InvalidArgument},
		"a node":                              {&adminpb.PlanRequest{Verb: "drain", Node: "n9"}, codes.NotFound},
		"S17: another host than has the name": {&adminpb.PlanRequest{Verb: "drain", Node: "n1", HostId: "host-n2"}, codes.FailedPrecondition},
		"a volume":                            {&adminpb.PlanRequest{Verb: "force-primary", Node: "n1", Volume: "x"}, codes.NotFound},
		"a volume with one replica":           {&adminpb.PlanRequest{Verb: "force-primary", Node: "n1", Volume: "pvc-1"}, codes.FailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				_, err := w.server.Plan(context.Background(), tc.req)
				require.Equal(t, tc.want, status.Code(err), err)
				_, err = w.server.CarryOut(context.Background(), tc.req)
				require.Equal(t, tc.want, status.Code(err), err)
			}
		})
	}
	t.Run("without a quorum", func(t *testing.T) {
		w.quorum = errNoQuorum
		_, err := w.server.Plan(context.Background(), &adminpb.PlanRequest{Verb: "drain", Node: "n1"})
		require.Equal(t, codes.Unavailable, status.Code(err))
	})
}

// S70: a viewer's request cannot end the controller: a plan that faults fails only its own call.
func TestFaultInAPlanFailsOnlyTheCall(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	var lines bytes.Buffer
	w.server.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	for verb, plan := range map[string]func(*planner) error{
		"fault": func(p *planner) error { // the state machine faults on a command without a body
			p.attachFacts = func(cmd *fsmpb.Command) { cmd.Body = nil }
			return p.dryRun(&fsmpb.Command{Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{}}})
		},
		"panic": func(*planner) error { panic("planted") },
	} {
		verbs[verb] = plan
		defer delete(verbs, verb)
		before := w.state.Hash()
		for _, call := range []func(context.Context, *adminpb.PlanRequest) (*adminpb.PlanResponse, error){w.server.Plan, w.server.CarryOut} {
			_, err := call(context.Background(), &adminpb.PlanRequest{Verb: verb, Node: "n1"})
			require.Equal(t, codes.Internal, status.Code(err))
			require.NotContains(t, err.Error(), "\n")
		}
		require.Equal(t, before, w.state.Hash())
		require.Contains(t, lines.String(), "plan "+verb+" of node n1")
	}
}

// S70: a volume without replicas does not make a plan or the state machine fault.
func TestReplaceOfTheHostOfAVolumeWithoutReplicas(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	id := w.replicate(1)
	w.mustApply(&fsmpb.Command{Actor: "admin/alice", Body: &fsmpb.Command_RemoveReplica{RemoveReplica: &fsmpb.RemoveReplica{
		VolumeId: string(id), NodeId: "n1", HostId: "host-n1"}}})
	w.mustApply(&fsmpb.Command{Actor: "admin/alice", Body: &fsmpb.Command_SetNodeReachable{SetNodeReachable: &fsmpb.SetNodeReachable{
		NodeId: "n2", HostId: "host-n2"}}})
	w.plan(&adminpb.PlanRequest{Verb: "replace", Node: "n2"})
	w.carryOut(&adminpb.PlanRequest{Verb: "replace", Node: "n2"})
}

// S25: a plan uses the measurements of the pools, as the leader does.
func TestEvictPlansWithMeasuredSpace(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	id := w.replicate(1)
	w.register("n3")
	w.connectReplicas(id, "n1", "n2")
	free := int64(0)
	w.server.AttachFacts = func(cmd *fsmpb.Command) {
		if add := cmd.GetAddReplica(); add != nil {
			add.Facts = []*fsmpb.PoolFact{{PoolId: "pool-n3", FreeBytes: free, Index: w.index}}
		}
	}
	req := &adminpb.PlanRequest{Verb: "evict", Node: "n1"}
	plan := w.plan(req)
	require.Equal(t, "blocked remove-replica pvc-1@n1", planText(plan)[1])
	require.Contains(t, plan.GetSteps()[1].GetDetail(), "there is no place for another replica")
	free = 1 << 40
	require.Equal(t, []string{"todo cordon @n1", "todo remove-replica pvc-1@n1", "todo add-replica pvc-1@n3"}, planText(w.plan(req)))
}
