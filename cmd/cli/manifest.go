package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/csi/identity"
	"github.com/holdfast-storage/holdfast/fsm"
)

func manifestCommand() *cobra.Command {
	site := fsm.DefaultSite
	cmd := apiCommand("manifest VOLUME", "Print the PersistentVolume by which a site's Kubernetes cluster knows a volume", exactArgs("a volume's id or name"), readTimeout,
		func(ctx context.Context, _ *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			volumes, err := client.Volumes(ctx, &adminpb.VolumesRequest{Volume: args[0]})
			if err != nil {
				return callError("find the volume", err)
			}
			var nodes *adminpb.NodesResponse
			err = client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
				nodes, err = api.Nodes(ctx, &adminpb.NodesRequest{})
				return err
			})
			if err != nil {
				return callError("list the nodes", err)
			}
			text, err := admin.Manifest(identity.Name, volumes.GetVolumes()[0], nodes.GetNodes(), site)
			if err != nil {
				return exit.Refusedf("print a manifest: %w", err)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		})
	cmd.Long = "Prints a PersistentVolume with the volume's handle for the cluster of a site that did not make the volume. It names the site's\n" +
		"nodes that have a replica, and no claim."
	cmd.Flags().StringVar(&site, "site", site, "`name` of the site")
	return cmd
}
