package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

func certsCommand() *cobra.Command {
	cmd := certsList("certs")
	cmd.AddCommand(certsList("list"), revokeCommand(), unrevokeCommand())
	return cmd
}

func certsList(use string) *cobra.Command {
	return listCommand(use, "List the certificates that controllers see, and what is revoked; revoke, and end that", noArgs, admin.CertificateList,
		listOf("list the certificates", func(ctx context.Context, api adminpb.AdminClient) (*adminpb.CertificatesResponse, error) {
			return api.Certificates(ctx, &adminpb.CertificatesRequest{})
		}))
}

// revocationVerb shows its plan, and carries it out with --yes and what binds it to that plan.
type revocationVerb struct {
	req *adminpb.RevocationPlanRequest
	yes bool
}

func (v *revocationVerb) command(use, short, long string) *cobra.Command {
	cmd := apiCommand(use, short, roleAndName, changeTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			v.req.Role, v.req.Name = args[0], args[1]
			return v.run(ctx, c, client, cmd)
		})
	cmd.Long = long
	cmd.Flags().BoolVar(&v.yes, "yes", false, "carry the plan out, with what binds it to the plan that was shown; without it, it is only shown")
	return cmd
}

func roleAndName(_ *cobra.Command, args []string) error {
	if len(args) != 2 {
		return exit.Usagef("name a role (controller, node, admin, operator or viewer) and a name")
	}
	return nil
}

// binding is the flag that binds a plan that is carried out to what was shown; empty: the arguments do.
func (v *revocationVerb) binding(resp *adminpb.RevocationPlanResponse) string {
	switch {
	case v.req.GetVerb() == "unrevoke":
		return fmt.Sprintf("--since %d ", resp.GetSince())
	case len(v.req.GetSerials()) == 0:
		return "--issued-until " + resp.GetIssuedUntil() + " "
	}
	return ""
}

func (v *revocationVerb) isBound() bool {
	return v.req.GetSince() != 0 || v.req.GetIssuedUntil() != "" || len(v.req.GetSerials()) > 0
}

func (v *revocationVerb) run(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command) error {
	carryOut := v.yes && v.isBound()
	var resp *adminpb.RevocationPlanResponse
	err := client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
		if carryOut {
			resp, err = api.ChangeRevocation(ctx, v.req)
		} else {
			resp, err = api.PlanRevocation(ctx, v.req)
		}
		return err
	})
	what := fmt.Sprintf("%s %s/%s", v.req.GetVerb(), v.req.GetRole(), v.req.GetName())
	if err != nil {
		return callError(what, err)
	}
	if err := admin.Print(cmd.OutOrStdout(), c.output, resp); err != nil {
		return err
	}
	state := resp.GetSteps()[0].GetState()
	switch {
	case state == "blocked":
		return exit.Refusedf("%s is blocked: %s", what, strings.TrimPrefix(resp.GetSteps()[0].GetDetail(), what+": "))
	case v.yes && !carryOut && state == "todo":
		return exit.Usagef("nothing was changed: --yes needs what the plan is for: the same command with %scarries it out", v.binding(resp))
	case state == "todo":
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was changed: the same command with "+v.binding(resp)+"--yes carries this out")
	}
	return nil
}

func revokeCommand() *cobra.Command {
	v := &revocationVerb{req: &adminpb.RevocationPlanRequest{Verb: "revoke"}}
	cmd := v.command("revoke ROLE NAME", "Have every listener refuse the certificates of one identity",
		"Revokes the certificates of an identity that were issued until now, or with --serial single ones. Every controller refuses\n"+
			"them in the handshake, and closes their connections. The plan shows whom that cuts off; it is refused for the certificate\n"+
			"that asks, and where no quorum of controllers would be left. A certificate that is issued later is good.")
	var serials []string
	cmd.PreRun = func(*cobra.Command, []string) {
		for _, s := range serials {
			v.req.Serials = append(v.req.Serials, strings.TrimLeft(strings.ToLower(s), "0"))
		}
	}
	cmd.Flags().StringSliceVar(&serials, "serial", nil, "serial numbers of single certificates, in `hex` as `holdfast certs list` shows them")
	cmd.Flags().StringVar(&v.req.IssuedUntil, "issued-until", "", "revoke what was issued up to this `time`, as the plan shows it ("+time.RFC3339+"); now by default")
	cmd.Flags().StringVar(&v.req.Reason, "reason", "", "why, for the history and for who is refused")
	return cmd
}

func unrevokeCommand() *cobra.Command {
	v := &revocationVerb{req: &adminpb.RevocationPlanRequest{Verb: "unrevoke"}}
	cmd := v.command("unrevoke ROLE NAME", "End the revocation of an identity",
		"Ends what is revoked of an identity, serial numbers and times. --since names the revocation that is meant, as the plan\n"+
			"shows it, so that a repeated command ends no later one.")
	reasonFlag(cmd, &v.req.Reason)
	cmd.Flags().Uint64Var(&v.req.Since, "since", 0, "the `index` of the revocation, as the plan shows it")
	return cmd
}
