package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/kube/why"
)

// whyKinds are the ways to name what is asked about, as kubectl takes them.
var whyKinds = map[string]string{
	"pod": "pod", "pods": "pod", "po": "pod",
	"pvc": "pvc", "persistentvolumeclaim": "pvc", "persistentvolumeclaims": "pvc",
}

func whyCommand() *cobra.Command {
	c, f := &connection{}, newListFlags(admin.WhyList)
	var namespace string
	cmd := &cobra.Command{Use: "why POD | pvc/NAME", Short: "Say what a pod or a claim in Kubernetes waits for, and what to do", Args: exactArgs("a pod's name, or pvc/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, err := whyTarget(args[0])
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), c, cmd, func(listing.View) (proto.Message, error) {
				return c.askWhy(cmd.Context(), f, kind, namespace, name)
			})
		}}
	cmd.Long = "Lays what Kubernetes says of a pod or a PersistentVolumeClaim beside what the log says of its volumes, in the order in which\n" +
		"a volume becomes usable. The first step that is not ok is the cause. It changes nothing, and tells what Kubernetes says\n" +
		"also where no controller answers. Exit code 1: a step is broken."
	c.addFlags(cmd, readTimeout)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "the pod's or the claim's `namespace`; the kubeconfig's by default")
	f.add(cmd)
	return cmd
}

func whyTarget(arg string) (kind, name string, err error) {
	kind, name, found := strings.Cut(arg, "/")
	if !found {
		return "pod", arg, nil
	}
	if whyKinds[kind] == "" || name == "" {
		return "", "", exit.Usagef("explain %q: name a pod, or pvc/NAME", arg)
	}
	return whyKinds[kind], name, nil
}

func (c *connection) askWhy(ctx context.Context, f *listFlags, kind, namespace, name string) (proto.Message, error) {
	api, home, err := c.kube.source.Connect()
	if err != nil {
		return nil, exit.Wrap(exit.Usage, err)
	}
	if namespace == "" {
		namespace = home
	}
	facts, err := why.Collect(ctx, api, c.readLog(ctx), kind, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, exit.Wrap(exit.Refused, err)
	}
	if err != nil {
		return nil, exit.Wrap(exit.Unavailable, err)
	}
	resp := &adminpb.WhyResponse{Index: facts.Status.GetIndex()}
	isBroken := false
	for _, finding := range why.Explain(facts) {
		isBroken = isBroken || finding.State == why.Broken
		resp.Steps = append(resp.Steps, &adminpb.WhyStep{Step: finding.Step, About: finding.About, State: string(finding.State), Text: finding.Text, Remedy: finding.Remedy})
	}
	return resp, f.verdict(func() error { return refusedUnless(!isBroken) })
}

// readLog asks the controllers; what went wrong is a fact too.
func (c *connection) readLog(ctx context.Context) why.Log {
	log, err := c.tryReadLog(ctx)
	if err != nil {
		log.Trouble = exit.Line(err)
	}
	return log
}

func (c *connection) tryReadLog(ctx context.Context) (log why.Log, err error) {
	c.kube.use = c.kube.use || c.dir == "" && len(c.endpoints) == 0
	client, err := c.client(ctx)
	if err != nil {
		return log, err
	}
	if log.Status, _, err = client.Status(ctx); err != nil {
		return log, err
	}
	volumes, err := client.Volumes(ctx, &adminpb.VolumesRequest{})
	if err != nil {
		return log, err
	}
	log.Volumes = volumes.GetVolumes()
	return log, client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) error {
		nodes, err := api.Nodes(ctx, &adminpb.NodesRequest{})
		if err != nil {
			return err
		}
		operations, err := api.Operations(ctx, &adminpb.OperationsRequest{})
		log.Nodes, log.Operations = nodes.GetNodes(), operations.GetOperations()
		return err
	})
}
