package admin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// interrupted is a log whose proposer is killed at one of its proposals: before the log has it, or before the answer is there.
type interrupted struct {
	*env
	left   int // proposals before that one
	before bool
	hit    bool
}

var errCallerKilled = errors.New("the caller was killed")

func (k *interrupted) Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	if k.hit {
		return nil, errCallerKilled
	}
	k.left--
	k.hit = k.left < 0
	if k.hit && k.before {
		return nil, errCallerKilled
	}
	out, err := k.env.Propose(ctx, cmd)
	if k.hit {
		return nil, errCallerKilled
	}
	return out, err
}

// killDrill is a verb in a cluster where it has something to do.
type killDrill struct {
	make func(t *testing.T) (*env, *adminpb.PlanRequest)
	// varies: what is proposed has ids that are drawn, or several commands name the plan of the call that proposed them, so that two
	// states that mean the same have other hashes.
	varies bool
}

// killDrills has every verb that has a plan.
var killDrills = map[string][]killDrill{
	"drain": {{make: nodeDrill("drain")}}, "evict": {{make: nodeDrill("evict"), varies: true}},
	"undrain": {{make: func(t *testing.T) (*env, *adminpb.PlanRequest) {
		w, req := nodeDrill("drain")(t)
		w.carryOut(req)
		req.Verb = "undrain"
		return w, req
	}}},
	"lost": {{make: lostDrill("lost")}}, "replace": {{make: lostDrill("replace"), varies: true}},
	"adopt": {{make: func(t *testing.T) (*env, *adminpb.PlanRequest) {
		w := newEnv(t, "n1", "n2")
		w.restore(w.state.Fork())
		return w, &adminpb.PlanRequest{Verb: "adopt", Node: "n1"}
	}}},
	"force-primary": {{make: func(t *testing.T) (*env, *adminpb.PlanRequest) {
		w := newReplicatedEnv(t, "n1", "n2")
		id := w.replicate(1)
		w.publish(id)
		w.setUnreachable("n1")
		w.observeReplica("n2", id, fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING)
		return w, &adminpb.PlanRequest{Verb: "force-primary", Volume: "pvc-1", Node: "n2", Reason: "n1 burnt", PeerDead: true}
	}}},
	"remove-kept": {{make: func(t *testing.T) (*env, *adminpb.PlanRequest) {
		w := newReplicatedEnv(t, "n1", "n2")
		w.keepCopy("n1", w.replicate(1))
		return w, &adminpb.PlanRequest{Verb: "remove-kept", Node: "n1", Volume: "pvc-1"}
	}}},
	"fence": {{make: func(t *testing.T) (*env, *adminpb.PlanRequest) {
		return newFenceEnv(t), &adminpb.PlanRequest{Verb: "fence", Cidrs: []string{"203.0.113.1/32"}}
	}}},
	"unfence": {{make: func(t *testing.T) (*env, *adminpb.PlanRequest) {
		w, cidrs := newFenceEnv(t), []string{"203.0.113.1/32"}
		w.carryOut(&adminpb.PlanRequest{Verb: "fence", Cidrs: cidrs})
		return w, &adminpb.PlanRequest{Verb: "unfence", Cidrs: cidrs}
	}}},
	adoptCluster: {{make: func(t *testing.T) (*env, *adminpb.PlanRequest) {
		w := newEnv(t, "n1")
		w.create(1, true)
		backup := w.state.Fork()
		w.stage(w.create(2, true), "/staging/2")
		w.create(3, true)
		w.keepManifests()
		w.remove("n1", "hf-00000000-0000-4000-8000-000000000001", true)
		w.restore(backup)
		return w, adoptRequest(2)
	}, varies: true}},
	importLV: {{make: func(t *testing.T) (*env, *adminpb.PlanRequest) {
		req := importRequest()
		req.DeviceId = "uuid-1"
		return newImportEnv(t), req
	}, varies: true}},
	importDRBD: {{make: func(t *testing.T) (*env, *adminpb.PlanRequest) {
		w, req := newReplicasEnv(t), replicasRequest("n1", "n2")
		req.DeviceId = "uuid-n1,uuid-n2"
		return w, req
	}, varies: true}},
	forgetImport: {{make: func(t *testing.T) (*env, *adminpb.PlanRequest) {
		w, req := newImportEnv(t), importRequest()
		req.DeviceId = "uuid-1"
		w.carryOut(req)
		v := w.state.VolumeNamed("data")
		w.reportReplica("n1", v.ID, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: v.Size}}})
		return w, &adminpb.PlanRequest{Verb: forgetImport, Volume: string(v.ID)}
	}, varies: true}},
	restoreHeader: {{make: func(t *testing.T) (*env, *adminpb.PlanRequest) {
		w := newEnv(t, "n1", "n2")
		w.createEncrypted()
		w.backups = map[fsm.NodeID]HeaderBackup{"n1": {UUID: luksUUID}}
		return w, &adminpb.PlanRequest{Verb: restoreHeader, Volume: "pvc-1"}
	}}},
	enableReplication:  {{make: siteDrill(of(enableReplication, "A"))}, {make: groupDrill(of(enableReplication, "A"))}},
	disableReplication: {{make: siteDrill(of(disableReplication, "A"), of(enableReplication, "A"))}, {make: groupDrill(of(disableReplication, "A"), of(enableReplication, "A"))}},
	demoteSite:         {{make: siteDrill(of(demoteSite, "A"), of(enableReplication, "A"))}, {make: groupDrill(of(demoteSite, "A"), of(enableReplication, "A"))}},
	promoteSite: {
		{make: siteDrill(of(promoteSite, "B"), of(enableReplication, "A"), of(demoteSite, "A"))},
		{make: groupDrill(of(promoteSite, "B"), of(enableReplication, "A"), of(demoteSite, "A"))},
		{make: forcedDrill(promoteSite, "B")},
	},
	resyncSite: {{make: func(t *testing.T) (*env, *adminpb.PlanRequest) {
		w, promotion := forcedDrill(promoteSite, "B")(t)
		w.carryOut(promotion)
		return w, forced(resyncSite, "A")
	}}},
}

func nodeDrill(verb string) func(*testing.T) (*env, *adminpb.PlanRequest) {
	return func(t *testing.T) (*env, *adminpb.PlanRequest) {
		w := newReplicatedEnv(t, "n1", "n2", "n3")
		w.replicate(1)
		w.replicate(2)
		return w, &adminpb.PlanRequest{Verb: verb, Node: "n1"}
	}
}

// lostDrill is of a host that is gone, with volumes that get another replica elsewhere.
func lostDrill(verb string) func(*testing.T) (*env, *adminpb.PlanRequest) {
	return func(t *testing.T) (*env, *adminpb.PlanRequest) {
		w, req := nodeDrill(verb)(t)
		req.EvenIfReachable = true
		return w, req
	}
}

// siteDrill is of a volume across two sites, after other verbs.
func siteDrill(req *adminpb.PlanRequest, after ...*adminpb.PlanRequest) func(*testing.T) (*env, *adminpb.PlanRequest) {
	return func(t *testing.T) (*env, *adminpb.PlanRequest) {
		w := newSitesEnv(t)
		id := w.acrossSites(1)
		for _, verb := range after {
			w.carryOut(verb)
			w.connectReplicas(id, "n1", "n2")
		}
		return w, proto.CloneOf(req)
	}
}

// groupDrill is siteDrill of a group of two volumes.
func groupDrill(req *adminpb.PlanRequest, after ...*adminpb.PlanRequest) func(*testing.T) (*env, *adminpb.PlanRequest) {
	return func(t *testing.T) (*env, *adminpb.PlanRequest) {
		w := newSitesEnv(t)
		first, second := w.acrossSites(1), w.acrossSites(2)
		w.groupAt("A", "shop", 1, first, second)
		ofGroup := func(r *adminpb.PlanRequest) *adminpb.PlanRequest {
			r = proto.CloneOf(r)
			r.Volume, r.Group = "", "A/shop"
			return r
		}
		for _, verb := range after {
			w.carryOut(ofGroup(verb))
			w.connectReplicas(first, "n1", "n2")
			w.connectReplicas(second, "n1", "n2")
		}
		return w, ofGroup(req)
	}
}

// forcedDrill is of a volume whose primary site cannot be asked and has what the other one lacks.
func forcedDrill(verb, site string) func(*testing.T) (*env, *adminpb.PlanRequest) {
	return func(t *testing.T) (*env, *adminpb.PlanRequest) {
		w := newSitesEnv(t)
		w.lag(w.replicated(1))
		w.setUnreachable("n1")
		return w, forced(verb, site)
	}
}

// prepare makes the drill's cluster, and binds the request to the plan that is shown there.
func (d *killDrill) prepare(t *testing.T) (*env, *adminpb.PlanRequest) {
	t.Helper()
	w, req := d.make(t)
	plan := w.plan(req)
	require.Contains(t, states(plan), stepTodo, "there is nothing to do")
	req.HostId = plan.GetHostId()
	if ofReplication(req.GetVerb()) {
		req.Role = plan.GetRole()
	}
	return w, req
}

func states(p *adminpb.PlanResponse) []string {
	return mapSlice(p.GetSteps(), (*adminpb.PlanStep).GetState)
}

// TestS71_PlansGoOnWhereTheirCallerWasKilled: each verb with a plan is killed at each command that it has the log take, before the log has it and
// before the answer is there. The same request, repeated, does what is left and nothing twice: the log is as long as without a kill,
// and the state is the same. Said once more it changes nothing.
func TestS71_PlansGoOnWhereTheirCallerWasKilled(t *testing.T) {
	require.Equal(t, Verbs(), slices.Sorted(maps.Keys(killDrills)), "each verb with a plan has a drill, which kills it")
	for _, verb := range Verbs() {
		for _, d := range killDrills[verb] {
			t.Run(verb, func(t *testing.T) { d.run(t) })
		}
	}
}

func (d *killDrill) run(t *testing.T) {
	w, req := d.prepare(t)
	begin := w.index
	for range 2 {
		w.carryOut(req)
	}
	proposals := int(w.index - begin)
	require.Positive(t, proposals)
	for step := range proposals {
		for _, before := range []bool{true, false} {
			killed, again := d.prepare(t)
			killed.server.Cluster = &interrupted{env: killed, left: step, before: before}
			_, err := killed.server.CarryOut(context.Background(), again)
			require.Equal(t, codes.Unavailable, status.Code(err))
			require.Less(t, killed.index, begin+uint64(step)+2)
			killed.server.Cluster = killed
			for range 2 {
				killed.carryOut(again)
			}
			require.Equal(t, w.index, killed.index, "what is in the log already is not done again")
			require.Equal(t, planText(w.plan(req)), planText(killed.plan(again)))
			if !d.varies {
				require.Equal(t, w.state.Hash(), killed.state.Hash())
			}
		}
	}
	t.Logf("killed at %d commands", proposals)
}
