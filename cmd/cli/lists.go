package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	readTimeout   = 10 * time.Second
	changeTimeout = 30 * time.Second
	importTimeout = 90 * time.Second // its hosts read every device that is not ours
)

// staleHelp is the help of --stale, which every command that reads the state has.
const staleHelp = "answer from the asked controller's own state: it may lag, and needs no quorum"

func nodesCommand() *cobra.Command {
	cmd := nodesList("nodes")
	cmd.AddCommand(nodesList("list"), drainCommand(), undrainCommand(), evictCommand(), loseCommand(), replaceCommand(), adoptCommand(),
		fenceCommand(), unfenceCommand(), fencesCommand(), rebootSafeCommand(), outOfServiceCommand(), drainPlanCommand())
	return cmd
}

func nodesList(use string) *cobra.Command {
	req := &adminpb.NodesRequest{}
	cmd := listCommand(use, "List the storage hosts, or change what the log says of one", noArgs, admin.NodeList,
		listOf("list the nodes", func(ctx context.Context, api adminpb.AdminClient) (*adminpb.NodesResponse, error) {
			return api.Nodes(ctx, req)
		}))
	cmd.Flags().BoolVar(&req.Stale, "stale", false, staleHelp)
	return cmd
}

func operationsCommand() *cobra.Command {
	cmd := operationsList("operations")
	cmd.AddCommand(operationsList("list"), showCommand(),
		operationCommand("cancel", "Cancel an operation", "cancel", adminpb.AdminClient.CancelOperation),
		operationCommand("retry", "Begin a failed or cancelled operation again", "retry", adminpb.AdminClient.RetryOperation))
	return cmd
}

func operationsList(use string) *cobra.Command {
	req := &adminpb.OperationsRequest{}
	cmd := listCommand(use, "List the work that hosts owe, or show, cancel or retry one", noArgs, admin.OperationList,
		listOf("list the operations", func(ctx context.Context, api adminpb.AdminClient) (*adminpb.OperationsResponse, error) {
			return api.Operations(ctx, req)
		}))
	cmd.Flags().BoolVar(&req.Stale, "stale", false, staleHelp)
	return cmd
}

func showCommand() *cobra.Command {
	return apiCommand("show ID", "Show one operation", operationArg, readTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			id, err := operationID(args[0])
			if err != nil {
				return err
			}
			return callAndPrint(ctx, c, client, cmd, "show "+args[0], func(ctx context.Context, api adminpb.AdminClient) (proto.Message, error) {
				return api.Operations(ctx, &adminpb.OperationsRequest{Id: id})
			})
		})
}

type operationCall func(adminpb.AdminClient, context.Context, *adminpb.OperationRequest, ...callOption) (*adminpb.ChangeResponse, error)

func operationCommand(verb, short, what string, call operationCall) *cobra.Command {
	req := &adminpb.OperationRequest{}
	cmd := apiCommand(verb+" ID", short, operationArg, changeTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			id, err := operationID(args[0])
			if err != nil {
				return err
			}
			return callAndPrint(ctx, c, client, cmd, what+" "+args[0], func(ctx context.Context, api adminpb.AdminClient) (proto.Message, error) {
				req.Id = id
				return call(api, ctx, req)
			})
		})
	reasonFlag(cmd, &req.Reason)
	return cmd
}

// operationArg requires one argument, an operation's id.
func operationArg(cmd *cobra.Command, args []string) error {
	if err := exactArgs("an operation's id")(cmd, args); err != nil {
		return err
	}
	_, err := operationID(args[0])
	return err
}

// operationID parses `op-12` or `12`.
func operationID(text string) (uint64, error) {
	id, err := fsm.ParseOperationID(text)
	if err != nil {
		return 0, exit.Usagef("%s", err)
	}
	return uint64(id), nil
}

// callAndPrint makes one call and prints its answer.
func callAndPrint(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, what string, call func(context.Context, adminpb.AdminClient) (proto.Message, error)) error {
	var answer proto.Message
	err := client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
		answer, err = call(ctx, api)
		return err
	})
	if err != nil {
		return callError(what, err)
	}
	return admin.Print(cmd.OutOrStdout(), c.output, answer)
}
