package cli

import (
	"context"

	"github.com/spf13/cobra"
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
		"same but for pods and the guard. Exit code 0: the drain is harmless; 1: something would wait, or is at risk; 3: nobody can tell."
	return cmd
}

// askDrainPlan asks the log and, where it is named, Kubernetes.
func (c *connection) askDrainPlan(ctx context.Context, client *admin.Client, node string) (*adminpb.DrainPlanResponse, error) {
	facts := &drain.Facts{Node: node}
	err := client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
		if facts.Risk, err = api.AtRisk(ctx, &adminpb.AtRiskRequest{Nodes: []string{node}}); err != nil {
			return err
		}
		nodes, err := api.Nodes(ctx, &adminpb.NodesRequest{StopReasons: true})
		if err != nil {
			return err
		}
		members, err := api.Members(ctx, &adminpb.MembersRequest{})
		facts.Nodes, facts.Members = nodes.GetNodes(), members.GetMembers()
		return err
	})
	if err != nil {
		return nil, callError("say what a drain of "+node+" does", err)
	}
	volumes, err := client.Volumes(ctx, &adminpb.VolumesRequest{Node: node})
	if err != nil {
		return nil, callError("list the volumes of "+node, err)
	}
	facts.Volumes = volumes.GetVolumes()
	if c.kube.wanted() {
		if facts.Kube, err = c.kube.nodeFacts(ctx, node); err != nil {
			return nil, err
		}
	}
	return drain.Plan(facts), nil
}

// nodeFacts is what Kubernetes says of a node.
func (k *kubeConnection) nodeFacts(ctx context.Context, node string) (*drain.Kube, error) {
	api, _, err := k.source.Connect()
	if err != nil {
		return nil, exit.Wrap(exit.Usage, err)
	}
	facts, err := drain.Collect(ctx, api, node, k.namespace, controllerPods)
	switch {
	case apierrors.IsNotFound(err):
		return nil, exit.Wrap(exit.Refused, err)
	case err != nil:
		return nil, exit.Wrap(exit.Unavailable, err)
	}
	return facts, nil
}
