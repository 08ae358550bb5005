package cli

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/kube/drain"
)

func drainPlanCommand() *cobra.Command {
	f := newListFlags(admin.DrainList)
	cmd := f.command("drain-plan NODE", "Say what draining a node in Kubernetes would do to storage now", exactArgs("a node's id"), readTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, _ listing.View, args []string) (proto.Message, error) {
			resp, err := c.askDrainPlan(ctx, client, args[0])
			if err != nil {
				return nil, err
			}
			return resp, f.verdict(func() error { return refusedUnless(resp.GetHarmless()) })
		})
	cmd.Long = "Says of each volume that is on the node or used there what happens when `kubectl drain` evicts its pods and the host stops then:\n" +
		"who waits, and until when; which volumes have their only copy there; whether a controller that runs there may stop; what the\n" +
		"drain guard answers; and what to do first. It changes nothing. Without Kubernetes (--kube, --kubeconfig or --context) it says the\n" +
		"same but for pods and the guard. A node that only Kubernetes has, where no host of Holdfast runs, has nothing but a controller to\n" +
		"lose. Exit code 0: the drain is harmless; 1: something would wait, or is at risk; 3: nobody can tell."
	return cmd
}

// askDrainPlan asks the log and, where it is named, Kubernetes.
func (c *connection) askDrainPlan(ctx context.Context, client *admin.Client, node string) (*adminpb.DrainPlanResponse, error) {
	facts := &drain.Facts{Node: node}
	err := client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) error { return c.askLog(ctx, api, facts) })
	if err != nil {
		return nil, callError("say what a drain of "+node+" does", err)
	}
	volumes, err := client.Volumes(ctx, &adminpb.VolumesRequest{Node: node})
	if err != nil {
		return nil, callError("list the volumes of "+node, err)
	}
	facts.Volumes = volumes.GetVolumes()
	if c.kube.wanted() {
		if facts.Kube, err = c.kube.nodeFacts(ctx, facts); err != nil {
			return nil, err
		}
	}
	return drain.Plan(facts), nil
}

// askLog fills in what a controller answers. A node that the log does not have is an error where Kubernetes is not asked about it.
func (c *connection) askLog(ctx context.Context, api adminpb.AdminClient, facts *drain.Facts) error {
	risk, unregistered := api.AtRisk(ctx, &adminpb.AtRiskRequest{Nodes: []string{facts.Node}})
	if unregistered != nil && (status.Code(unregistered) != codes.NotFound || !c.kube.wanted()) {
		return unregistered
	}
	nodes, err := api.Nodes(ctx, &adminpb.NodesRequest{StopReasons: true})
	if err != nil {
		return err
	}
	facts.Risk, facts.Nodes = risk, nodes.GetNodes()
	if unregistered != nil {
		facts.Risk = &adminpb.AtRiskResponse{Index: nodes.GetIndex()}
	}
	if unregistered != nil && facts.IsRegistered() {
		return unregistered // recorded as lost, or registered since
	}
	members, err := api.Members(ctx, &adminpb.MembersRequest{})
	facts.Members = members.GetMembers()
	return err
}

// nodeFacts is what Kubernetes says of a node.
func (k *kubeConnection) nodeFacts(ctx context.Context, of *drain.Facts) (*drain.Kube, error) {
	api, _, err := k.source.Connect()
	if err != nil {
		return nil, exit.Wrap(exit.Usage, err)
	}
	facts, err := drain.Collect(ctx, api, of.Node, k.namespace, controllerPods)
	switch {
	case apierrors.IsNotFound(err) && !of.IsRegistered():
		return nil, exit.Refusedf("say what a drain of %s does: neither Kubernetes nor the log has a node of this name", of.Node)
	case apierrors.IsNotFound(err):
		return nil, exit.Wrap(exit.Refused, err)
	case err != nil:
		return nil, exit.Wrap(exit.Unavailable, err)
	}
	return facts, nil
}
