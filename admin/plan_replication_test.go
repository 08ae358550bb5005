package admin

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// of is a request about volume 1 at a site.
func of(verb, site string) *adminpb.PlanRequest {
	r := &adminpb.PlanRequest{Verb: verb, Volume: "A/pvc-1", Site: site}
	if verb == enableReplication {
		r.PeerSite = map[string]string{"A": "B", "B": "A"}[site]
	}
	return r
}

func forced(verb, site string) *adminpb.PlanRequest {
	r := of(verb, site)
	r.Force = true
	return r
}

func details(p *adminpb.PlanResponse) (all string) {
	for _, s := range p.GetSteps() {
		all += s.GetDetail() + "\n"
	}
	return all
}

// S38: the role is moved by a demotion and a promotion; each command that is repeated has nothing to do.
func TestS38_PlannedMoveOfARole(t *testing.T) {
	w := newSitesEnv(t)
	id := w.acrossSites(1)
	plan := w.plan(of(enableReplication, "A"))
	require.Equal(t, []string{"todo enable-replication @", "follows record pvc-1@n2"}, planText(plan))
	w.carryOut(of(enableReplication, "A"))
	require.Equal(t, []string{"todo enable-replication @"}, planText(w.plan(of(enableReplication, "B"))), "B claims it too")
	w.carryOut(of(enableReplication, "B"))
	require.Equal(t, []string{"done enable-replication @"}, planText(w.carryOut(of(enableReplication, "A"))))
	require.Equal(t, []string{"A", "B"}, w.relationOf(id).GetClaims())

	w.publishAtA(id)
	blocked := w.plan(of(demoteSite, "A"))
	require.Equal(t, []string{"blocked demote @"}, planText(blocked))
	require.Contains(t, details(blocked), "it is published to node n1")
	w.mustApply(&fsmpb.Command{Actor: "controller/cA", Site: "A", Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: string(id), NodeId: "n1"}}})
	w.connectReplicas(id, "n1", "n2")
	require.Contains(t, details(w.plan(of(promoteSite, "B"))), "site A is primary and can be asked: demote it there, or fence its hosts")

	require.Contains(t, planText(w.carryOut(of(demoteSite, "A"))), "done demote @")
	require.Equal(t, "demoted", roleCell(w.relationOf(id)))
	w.connectReplicas(id, "n1", "n2")
	require.Equal(t, []string{"done demote @"}, planText(w.carryOut(of(demoteSite, "A"))))
	require.Equal(t, []string{"done promote @"}, planText(w.carryOut(of(promoteSite, "B"))))
	require.Equal(t, []string{"done promote @"}, planText(w.carryOut(of(promoteSite, "B"))), "repeated")
	require.Equal(t, "primary B", roleCell(w.relationOf(id)))
	require.Equal(t, "B", w.volume(id).Home.String())
}

// S39: a plan that was shown before the role moved is not carried out.
func TestS39_APlanIsBoundToTheRole(t *testing.T) {
	w := newSitesEnv(t)
	w.replicated(1)
	req := of(demoteSite, "A")
	req.Role = w.plan(req).GetRole()
	require.NotZero(t, req.GetRole())
	w.carryOut(of(demoteSite, "A"))
	w.carryOut(of(promoteSite, "A"))
	late := w.carryOut(req)
	require.Equal(t, []string{"blocked demote @"}, planText(late))
	require.Contains(t, details(late), "its role moved at index")
}

// S44, S48: the plan says what a forced promotion gives up; the other site's replica stays apart until a forced resync.
func TestS44_ForcedPromotionAndResync(t *testing.T) {
	w := newSitesEnv(t)
	id := w.replicated(1)
	w.lag(id)
	require.Equal(t, "degraded", w.relationOf(id).GetStatus())
	w.setUnreachable("n1")
	plan := w.plan(of(promoteSite, "B"))
	require.Equal(t, []string{"blocked promote @", "blocked give-up pvc-1@"}, planText(plan))
	require.Contains(t, details(plan), "with --force: writes that were acknowledged in generation")
	plan = w.plan(forced(promoteSite, "B"))
	require.Equal(t, []string{"todo promote @", "follows end pvc-1@n1", "follows cut pvc-1@n1", "follows set-apart pvc-1@n1", "follows give-up pvc-1@"}, planText(plan)[:5])
	require.Contains(t, details(plan), "cannot be known while no host of site A can be asked")
	w.carryOut(forced(promoteSite, "B"))
	r := w.relationOf(id)
	require.Equal(t, []string{"primary B", "A by force", "A", "error"}, []string{roleCell(r), oustedCell(r), r.GetApart(), r.GetStatus()})
	condition := conditionView(w.state, w.volume(id))
	require.True(t, condition.Abnormal)
	require.Contains(t, condition.Message, "site A was ousted and may still acknowledge writes")
	require.NotZero(t, r.GetGivenUp().GetGeneration())
	require.NotEmpty(t, r.GetGivenUp().GetSince())
	again := w.carryOut(forced(promoteSite, "B"))
	require.Contains(t, planText(again), "done give-up pvc-1@", "repeated it still says what was given up")

	require.Equal(t, []string{"blocked promote @"}, planText(w.plan(forced(promoteSite, "A"))), "it was ousted")
	plan = w.plan(of(resyncSite, "A"))
	require.Equal(t, []string{"todo resync @", "blocked discard pvc-1@n1"}, planText(plan))
	plan = w.plan(forced(resyncSite, "A"))
	require.Equal(t, []string{"todo resync @", "follows discard pvc-1@n1", "waiting synchronise @"}, planText(plan))
	require.Contains(t, details(plan), "kept in a snapshot")
	unkept := forced(resyncSite, "A")
	unkept.DiscardUnkept = true
	require.Contains(t, details(w.plan(unkept)), "WHAT IT HAS IS DISCARDED")
	w.carryOut(forced(resyncSite, "A"))
	require.Empty(t, w.relationOf(id).GetApart())
	require.Equal(t, []string{"done resync @", "waiting synchronise @"}, planText(w.carryOut(forced(resyncSite, "A"))))
}

// S55: a plain volume is converted, and the plan says which host gets its copy. Undone before it began on the host
// that has the content.
func TestS55_PlanOfAConversion(t *testing.T) {
	w := newSitesEnv(t)
	id := w.plainAt(1)
	req := of(enableReplication, "A")
	req.PeerNode, req.Protocol = "n2", "A"
	require.Equal(t, []string{"todo enable-replication @", "follows convert pvc-1@n2", "waiting replicate @"}, planText(w.plan(req)))
	require.Equal(t, []string{"done enable-replication @", "follows convert pvc-1@n2", "waiting replicate @"}, planText(w.carryOut(req)))
	require.Equal(t, []string{"done enable-replication @", "waiting replicate @"}, planText(w.carryOut(req)))
	require.Equal(t, "A", w.volume(id).Replication.Protocol.String()[len("PROTOCOL_"):])
	volumes, err := w.server.Volumes(t.Context(), &adminpb.VolumesRequest{})
	require.NoError(t, err)
	require.Equal(t, "second-replica", volumes.GetVolumes()[0].GetConversion().GetState())

	undo := of(disableReplication, "A")
	require.Contains(t, planText(w.plan(undo)), "todo disable-replication @")
	w.carryOut(undo)
	require.Contains(t, planText(w.carryOut(undo)), "done disable-replication @")
	require.Nil(t, w.relationOf(id))
}

// S37: the secondary ends its claim only, the primary the relation.
func TestS37_PlansOfDisabling(t *testing.T) {
	w := newSitesEnv(t)
	id := w.replicated(1)
	w.carryOut(of(enableReplication, "B"))
	plan := w.plan(of(disableReplication, "B"))
	require.Equal(t, []string{"todo disable-replication @"}, planText(plan))
	require.Contains(t, details(plan), "the claim of site B ends")
	w.carryOut(of(disableReplication, "B"))
	require.Equal(t, []string{"A"}, w.relationOf(id).GetClaims())
	require.Equal(t, []string{"done disable-replication @"}, planText(w.carryOut(of(disableReplication, "B"))))
	require.Equal(t, []string{"todo disable-replication @", "follows keep-replica pvc-1@n2"}, planText(w.plan(of(disableReplication, "A"))))
	w.carryOut(of(disableReplication, "A"))
	require.Nil(t, w.relationOf(id))
	require.Equal(t, []string{"done disable-replication @"}, planText(w.carryOut(of(disableReplication, "A"))))
}

// S38: of a group all volumes move, or none; a member is not replicated by itself.
func TestS38_PlansOfAGroup(t *testing.T) {
	w := newSitesEnv(t)
	first, second := w.acrossSites(1), w.acrossSites(2)
	group := w.groupAt("A", "shop", 1, first, second)
	ofGroup := func(verb, site string) *adminpb.PlanRequest {
		r := of(verb, site)
		r.Volume, r.Group = "", "A/shop"
		return r
	}
	w.carryOut(ofGroup(enableReplication, "A"))
	require.Contains(t, details(w.plan(of(demoteSite, "A"))), "but with volume group "+group)
	require.Equal(t, []string{"done demote @"}, planText(w.carryOut(ofGroup(demoteSite, "A")))[:1])
	w.carryOut(ofGroup(promoteSite, "B"))
	groups, err := w.server.VolumeGroups(t.Context(), &adminpb.VolumeGroupsRequest{})
	require.NoError(t, err)
	g := groups.GetGroups()[0]
	require.Equal(t, []string{"B"}, g.GetHomes())
	require.Equal(t, "primary B", roleCell(g.GetRelation()))
	require.Equal(t, group, w.relationOf(second).GetGroup())
}

func TestPlansOfReplicationAreRefused(t *testing.T) {
	w := newSitesEnv(t)
	w.acrossSites(1)
	for name, tc := range map[string]struct {
		req  *adminpb.PlanRequest
		code codes.Code
		text string
	}{
		"nothing":             {&adminpb.PlanRequest{Verb: promoteSite, Site: "A"}, codes.InvalidArgument, "either a volume or a volume group"},
		"both":                {&adminpb.PlanRequest{Verb: promoteSite, Site: "A", Volume: "x", Group: "y"}, codes.InvalidArgument, "either a volume or a volume group"},
		"no site":             {of(promoteSite, ""), codes.InvalidArgument, "name the site"},
		"no site's name":      {of(promoteSite, "a b"), codes.InvalidArgument, "is no name of a site"},
		"an unknown volume":   {&adminpb.PlanRequest{Verb: promoteSite, Site: "A", Volume: "x"}, codes.NotFound, `"x"`},
		"an unknown group":    {&adminpb.PlanRequest{Verb: promoteSite, Site: "A", Group: "x"}, codes.NotFound, `"x"`},
		"a forced demotion":   {forced(demoteSite, "A"), codes.InvalidArgument, "no force"},
		"no peer site":        {&adminpb.PlanRequest{Verb: enableReplication, Site: "A", Volume: "A/pvc-1"}, codes.InvalidArgument, "peer site"},
		"an unknown protocol": {&adminpb.PlanRequest{Verb: enableReplication, Site: "A", PeerSite: "B", Volume: "A/pvc-1", Protocol: "B"}, codes.InvalidArgument, `"B"`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, call := range []func() error{
				func() error { _, err := w.server.Plan(t.Context(), tc.req); return err },
				func() error { _, err := w.server.CarryOut(t.Context(), tc.req); return err },
			} {
				err := call()
				require.Equal(t, tc.code, status.Code(err), err)
				require.ErrorContains(t, err, tc.text)
			}
		})
	}
	for _, verb := range []string{promoteSite, demoteSite, resyncSite} {
		plan := w.carryOut(of(verb, "A"))
		require.Equal(t, "blocked", plan.GetSteps()[0].GetState())
		require.Contains(t, details(plan), "it is not replicated between sites")
	}
	require.True(t, w.plan(of(disableReplication, "A")).GetDone())
	require.Contains(t, details(w.plan(&adminpb.PlanRequest{Verb: enableReplication, Volume: "A/pvc-1", Site: "A", PeerSite: "C"})), "its replicas are at the sites A and B")

}
