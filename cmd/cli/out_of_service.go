package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

func outOfServiceCommand() *cobra.Command {
	var back bool
	req := &adminpb.SetOutOfServiceRequest{}
	cmd := apiCommand("out-of-service NODE", "Say whether a node is out of service, and end that", exactArgs("a node's id"), changeTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			req.Node = args[0]
			return outOfService(ctx, c, client, cmd, req, back)
		})
	cmd.Long = "`holdfast kube` takes a node out of service whose host is gone: what that held ends, and once the other hosts of its volumes\n" +
		"disconnected it, it is proven that nothing it writes is acknowledged. The answer says so, with the generation of each\n" +
		"volume and its witness. The node returns when its host has ended what it held; --return does that by hand, at once and\n" +
		"without --yes, where `holdfast kube` does not run any more."
	cmd.Flags().BoolVar(&back, "return", false, "return the node to service, if its host has ended what it held")
	reasonFlag(cmd, &req.Reason)
	return cmd
}

// outOfService asks, or returns the node that was out of service when it was asked, and prints the answer.
func outOfService(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, req *adminpb.SetOutOfServiceRequest, back bool) error {
	var resp *adminpb.OutOfServiceResponse
	err := client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
		if resp, err = api.OutOfService(ctx, &adminpb.OutOfServiceRequest{Node: req.GetNode()}); err != nil || !back || resp.GetSince() == 0 {
			return err
		}
		req.Returned = resp.GetSince()
		resp, err = api.SetOutOfService(ctx, req)
		return err
	})
	if err != nil {
		return callError("ask whether "+req.GetNode()+" is out of service", err)
	}
	return admin.Print(cmd.OutOrStdout(), c.output, resp)
}
