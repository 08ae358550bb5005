package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/enroll"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

func tokensCommand() *cobra.Command {
	cmd := tokensList("tokens")
	cmd.AddCommand(tokensList("list"), createTokenCommand(), revokeTokenCommand())
	return cmd
}

func tokensList(use string) *cobra.Command {
	return listCommand(use, "List the tokens with which controllers and nodes join; create and revoke them", noArgs, admin.TokenList,
		listOf("list the join tokens", func(ctx context.Context, api adminpb.AdminClient) (*adminpb.TokensResponse, error) {
			return api.Tokens(ctx, &adminpb.TokensRequest{})
		}))
}

// tokenVerb shows its plan, and carries it out with --yes.
type tokenVerb struct {
	req    *adminpb.TokenPlanRequest
	ttl    time.Duration
	yes    bool
	secret []byte // of a token that is created; it leaves this process in the token's text only
}

func createTokenCommand() *cobra.Command {
	v := &tokenVerb{req: &adminpb.TokenPlanRequest{Verb: "create"}}
	cmd := apiCommand("create", "Create a token with which one controller or node joins, once", noArgs, changeTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, _ []string) error {
			return v.create(ctx, c, client, cmd)
		})
	cmd.Long = "Creates a token for one host. `holdfast controller --join-token-file FILE` or `holdfast node --join-token-file FILE` there makes a\n" +
		"key, gets its certificate from a controller with --enroll-listen, and joins. The token is good once, for one role and\n" +
		"name, until it expires. With --yes it is printed to standard output, and shown never again: its secret is made here, and\n" +
		"the cluster knows what proves that a host has it only. It is a secret: put it into a file of mode 0600, or into HOLDFAST_JOIN_TOKEN, not\n" +
		"into an argument, which `ps` shows to all. Other tokens of the same name are revoked, used ones too."
	flags := cmd.Flags()
	flags.StringVar(&v.req.Role, "role", "", "`role` of the host: controller or node")
	flags.StringVar(&v.req.Name, "name", "", "`name` of the controller, or the node's id")
	flags.StringVar(&v.req.Address, "address", "", "`address` of a controller's host, an IP or a name without a port: it listens there where its flags do not say otherwise")
	flags.DurationVar(&v.ttl, "ttl", time.Hour, "how long the token is good: 1s to 168h")
	reasonFlag(cmd, &v.req.Reason)
	flags.BoolVar(&v.yes, "yes", false, "create the token and print it; without it, the plan is only shown")
	return cmd
}

func (v *tokenVerb) create(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command) error {
	switch {
	case v.req.GetRole() == "" || v.req.GetName() == "":
		return exit.Usagef("create a join token: set --role and --name")
	case v.req.GetRole() != string(pki.Controller) && v.req.GetRole() != string(pki.Node):
		return exit.Usagef("create a join token: --role %q is neither controller nor node; `holdfast ca issue` makes the certificates of operators", v.req.GetRole())
	case v.req.GetAddress() != "" && v.req.GetRole() != string(pki.Controller):
		return exit.Usagef("create a join token: --address is for a controller")
	case v.ttl < time.Second || v.ttl%time.Second != 0:
		return exit.Usagef("create a join token: --ttl %s is not in whole seconds", v.ttl)
	}
	v.req.TtlSeconds = int64(v.ttl / time.Second)
	if v.yes {
		var err error
		if v.req.Id, v.secret, err = enroll.NewSecret(); err != nil {
			return err
		}
		v.req.SecretHash = enroll.SecretHash(v.secret)
	}
	return v.run(ctx, c, client, cmd)
}

func revokeTokenCommand() *cobra.Command {
	v := &tokenVerb{req: &adminpb.TokenPlanRequest{Verb: "revoke"}}
	cmd := apiCommand("revoke ID", "Have a join token be good for nothing any more", exactArgs("the id of a token"), changeTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			v.req.Id = args[0]
			return v.run(ctx, c, client, cmd)
		})
	cmd.Long = "Revokes a token, also one that was used: its host gets no other certificate by it. The one that it got stays good:\n" +
		"`holdfast certs revoke` ends it, and the tokens of that identity."
	reasonFlag(cmd, &v.req.Reason)
	cmd.Flags().BoolVar(&v.yes, "yes", false, "carry the plan out; without it, it is only shown")
	return cmd
}

func (v *tokenVerb) run(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command) error {
	var resp *adminpb.TokenPlanResponse
	err := client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
		if v.yes {
			resp, err = api.ChangeToken(ctx, v.req)
		} else {
			resp, err = api.PlanToken(ctx, v.req)
		}
		return err
	})
	what := v.req.GetVerb() + " a join token"
	if err != nil {
		return callError(what, err)
	}
	if v.secret != nil && resp.GetDone() {
		return v.printToken(c, cmd, resp)
	}
	if err := admin.Print(cmd.OutOrStdout(), c.output, resp); err != nil {
		return err
	}
	switch state := resp.GetSteps()[0].GetState(); {
	case state == "blocked":
		return exit.Refusedf("%s: it is blocked: %s", what, resp.GetSteps()[0].GetDetail())
	case state == "todo":
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was changed: the same command with --yes carries this out")
	}
	return nil
}

// printToken prints the token alone where a table is asked for, so that a script can take it.
func (v *tokenVerb) printToken(c *connection, cmd *cobra.Command, resp *adminpb.TokenPlanResponse) error {
	if len(resp.GetCaPin()) != len(pki.Pin{}) {
		return exit.Refusedf("create a join token: the controller named no CA; upgrade it")
	}
	token := &enroll.Token{
		ID: resp.GetId(), Secret: v.secret, Pin: pki.Pin(resp.GetCaPin()), Cluster: resp.GetCluster(),
		Role: pki.Role(resp.GetRole()), Name: resp.GetName(), Addresses: resp.GetEnrollAddresses(),
	}
	text, err := token.Text()
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "token %s of %s/%s is good once, until %s: put it into a file of mode 0600 on the host, and start `holdfast %s --join-token-file FILE` there\n",
		token.ID, token.Role, token.Name, resp.GetExpires(), token.Role)
	if c.output == "table" {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
		return err
	}
	resp.Token = text
	return admin.Print(cmd.OutOrStdout(), c.output, resp)
}
