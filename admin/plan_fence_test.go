package admin

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// newFenceEnv has volume 1, which is published to n1, and whose other replica is on n2.
func newFenceEnv(t *testing.T) *env {
	w := newReplicatedEnv(t, "n1", "n2")
	for i, n := range []string{"n1", "n2"} {
		r := w.registration(n)
		r.Addresses = []string{[]string{"203.0.113.1", "203.0.113.2"}[i]}
		w.mustApply(&fsmpb.Command{Actor: "node/" + n, Body: &fsmpb.Command_RegisterNode{RegisterNode: r}})
	}
	w.publish(w.replicate(1))
	return w
}

// S60: the plan names the hosts, and is carried out for them only.
func TestFencePlan(t *testing.T) {
	w := newFenceEnv(t)
	req := &adminpb.PlanRequest{Verb: "fence", Cidrs: []string{"203.0.113.1/32"}}
	plan := w.plan(req)
	require.Equal(t, "n1/host-n1", plan.GetHostId())
	require.Equal(t, []string{"todo fence @", "follows end pvc-1@n1", "waiting sever @"}, planText(plan))
	_, err := w.server.CarryOut(context.Background(), &adminpb.PlanRequest{Verb: "fence", Cidrs: req.GetCidrs(), HostId: "n1/host-old"})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	w.carryOut(req)
	require.Equal(t, []string{"done fence @", "waiting sever @"}, planText(w.carryOut(req)))
	nodes, err := w.server.Nodes(context.Background(), &adminpb.NodesRequest{})
	require.NoError(t, err)
	require.Equal(t, "fenced by 203.0.113.1/32 (operator)", nodes.GetNodes()[0].GetFence())

	fences, err := w.server.Fences(context.Background(), &adminpb.FencesRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"n1/host-n1"}, fences.GetFences()[0].GetHosts())
	require.False(t, fences.GetFences()[0].GetHolds())
	require.NotEmpty(t, fences.GetFences()[0].GetWaitsFor())
}

// S59: an operator ends the operators' fences, or a site's where it is named.
func TestUnfencePlan(t *testing.T) {
	w := newFenceEnv(t)
	cidrs := []string{"203.0.113.1/32"}
	w.carryOut(&adminpb.PlanRequest{Verb: "fence", Cidrs: cidrs, Site: "elsewhere"})
	require.Equal(t, []string{"done unfence @"}, planText(w.plan(&adminpb.PlanRequest{Verb: "unfence", Cidrs: cidrs})))
	req := &adminpb.PlanRequest{Verb: "unfence", Cidrs: cidrs, Site: "elsewhere"}
	require.Equal(t, []string{"todo unfence @", "follows serve @n1"}, planText(w.plan(req)))
	w.carryOut(req)
	require.Equal(t, []string{"done unfence @"}, planText(w.carryOut(req)))
}

func TestFencePlansAreRefused(t *testing.T) {
	for name, cidrs := range map[string][]string{"nothing": nil, "no CIDR": {"x"}} {
		t.Run(name, func(t *testing.T) {
			w := newFenceEnv(t)
			for _, verb := range []string{"fence", "unfence"} {
				_, err := w.server.Plan(context.Background(), &adminpb.PlanRequest{Verb: verb, Cidrs: cidrs})
				require.ErrorContains(t, err, "CIDR")
			}
		})
	}
	w := newFenceEnv(t)
	require.Equal(t, []string{"blocked fence @"}, planText(w.plan(&adminpb.PlanRequest{Verb: "fence", Cidrs: []string{"0.0.0.0/0"}})))
	require.Equal(t, "none", w.plan(&adminpb.PlanRequest{Verb: "fence", Cidrs: []string{"198.51.100.0/24"}}).GetHostId())
}
