package cli

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/cmd/dev"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

func membersCommand() *cobra.Command {
	cmd := membersList("members")
	cmd.AddCommand(membersList("list"), addMemberCommand(), removeMemberCommand(), replaceMemberCommand(),
		demoteMemberCommand(), promoteMemberCommand(), transferCommand())
	return cmd
}

func membersList(use string) *cobra.Command {
	return listCommand(use, "List the controllers of the configuration, or change which they are", noArgs, admin.MemberList, readMembers)
}

func readMembers(ctx context.Context, c *connection, client *admin.Client, _ listing.View, _ []string) (proto.Message, error) {
	var resp *adminpb.MembersResponse
	err := client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
		resp, err = api.Members(ctx, &adminpb.MembersRequest{})
		return err
	})
	names := dev.Names(c.dir)
	for _, m := range resp.GetMembers() {
		if m.GetId() == "" {
			m.Id = names[m.GetAddress()]
		}
	}
	return listed("list the members", resp, err)
}

// memberVerb is a change of the Raft configuration: it shows its plan, and carries it out with --yes. The
// progress is in the configuration, so repeating the command continues.
type memberVerb struct {
	req       *adminpb.MemberPlanRequest
	yes, wait bool
}

func (v *memberVerb) command(use, short, long, what string) *cobra.Command {
	return v.commandOf(use, short, long, exactArgs(what))
}

// commandOf is command with other arguments: a member, or none.
func (v *memberVerb) commandOf(use, short, long string, arguments cobra.PositionalArgs) *cobra.Command {
	cmd := apiCommand(use, short, arguments, changeTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			named := ""
			if len(args) > 0 {
				named = args[0]
				v.req.Member = raftAddress(c.dir, named)
			}
			if err := v.requireMemberID(named); err != nil {
				return err
			}
			return v.run(ctx, c, client, cmd)
		})
	cmd.Long = long
	cmd.Flags().BoolVar(&v.yes, "yes", false, "carry the plan out, on the member id that it shows; without it, it is only shown")
	reasonFlag(cmd, &v.req.Reason)
	cmd.Flags().BoolVar(&v.wait, "wait", false, "with --yes: go on until nothing is left but what is blocked; to interrupt it is safe")
	return cmd
}

// raftAddress returns the Raft address of a controller of a developer's cluster, by which it is found
// even while it does not answer; else the given name.
func raftAddress(dir, given string) string {
	for addr, id := range dev.Names(dir) {
		if id == given {
			return addr
		}
	}
	return given
}

// requireMemberID requires a member id with --yes: a name may belong to another member by now.
func (v *memberVerb) requireMemberID(given string) error {
	if !v.yes {
		return nil
	}
	if v.req.GetMemberId() == "" {
		v.req.MemberId = given
	}
	if _, err := uuid.Parse(v.req.GetMemberId()); err != nil && v.req.GetVerb() == "add" {
		return exit.Usagef("add %s: with --yes, name with --member-id the id that the plan shows", given)
	} else if err != nil {
		return exit.Usagef("%s %s: with --yes, name the member by the id that the plan shows", v.req.GetVerb(), given)
	}
	return nil
}

func (v *memberVerb) run(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command) error {
	resp, err := v.call(ctx, client)
	for printed := ""; err == nil && v.yes && v.wait && !resp.GetDone() && blockedSteps(resp) == 0; {
		if printed != resp.GetSummary() {
			printed = resp.GetSummary()
			fmt.Fprintln(cmd.ErrOrStderr(), printed)
		}
		v.req.Address = resp.GetAddress()
		if err = sleepContext(ctx, waitInterval); err == nil {
			resp, err = v.call(ctx, client)
		}
	}
	if err != nil {
		return callError(v.req.GetVerb()+" member "+v.req.GetMember(), err)
	}
	if err := admin.Print(cmd.OutOrStdout(), c.output, resp); err != nil {
		return err
	}
	return v.reportResult(cmd, resp)
}

func (v *memberVerb) call(ctx context.Context, client *admin.Client) (resp *adminpb.MemberPlanResponse, err error) {
	err = client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
		if v.yes {
			resp, err = api.ChangeMember(ctx, v.req)
		} else {
			resp, err = api.PlanMember(ctx, v.req)
		}
		return err
	})
	return resp, err
}

func blockedSteps(resp *adminpb.MemberPlanResponse) int { return memberStepCount(resp, "blocked") }

// memberStepCount counts the steps in a state.
func memberStepCount(resp *adminpb.MemberPlanResponse, state string) (n int) {
	for _, s := range resp.GetSteps() {
		if s.GetState() == state {
			n++
		}
	}
	return n
}

// reportResult prints what the operator can do next.
func (v *memberVerb) reportResult(cmd *cobra.Command, resp *adminpb.MemberPlanResponse) error {
	switch {
	case v.yes && blockedSteps(resp) > 0:
		return exit.Refusedf("%s member %s: %d steps are blocked", v.req.GetVerb(), resp.GetMemberId(), blockedSteps(resp))
	case !v.yes && memberStepCount(resp, "todo") == 0: // --yes would do nothing now
	case !v.yes && resp.GetVerb() == "add":
		fmt.Fprintf(cmd.ErrOrStderr(), "nothing was changed: `holdfast members add %s --member-id %s --yes` carries this out\n", resp.GetAddress(), resp.GetMemberId())
	case !v.yes:
		fmt.Fprintf(cmd.ErrOrStderr(), "nothing was changed: `holdfast members %s %s --yes` carries this out\n", resp.GetVerb(), resp.GetMemberId())
	case v.yes && !resp.GetDone():
		fmt.Fprintln(cmd.ErrOrStderr(), "what is left waits for others: the same command goes on later")
	}
	return nil
}

func addMemberCommand() *cobra.Command {
	v := &memberVerb{req: &adminpb.MemberPlanRequest{Verb: "add"}}
	cmd := v.command("add ADDRESS", "Take in the controller that waits at a Raft address, and show how far it is",
		"A controller that is started with an empty data folder and --join asks by itself to be taken in: its certificate\n"+
			"authorises it. This shows whether it was, how far it has caught up and whether it votes, and with --yes has the\n"+
			"leader take in one that could not ask. It votes when it has caught up.", "the Raft address of a controller")
	cmd.Aliases = []string{"join"}
	cmd.Flags().StringVar(&v.req.MemberId, "member-id", "", "the `id` that the plan shows; with --yes")
	return cmd
}

func removeMemberCommand() *cobra.Command {
	v := &memberVerb{req: &adminpb.MemberPlanRequest{Verb: "remove"}}
	return v.command("remove MEMBER", "Take a controller out of the configuration",
		"Takes a controller out for good: its process ends, and its data folder is of no more use. It is refused when the\n"+
			"voters that are left would be no quorum, or while another one is catching up. MEMBER is an id, a name or an\n"+
			"address; with --yes the id that the plan shows, so that said twice it never meets the one that took the name.",
		"a member's id, name or address")
}

func replaceMemberCommand() *cobra.Command {
	v := &memberVerb{req: &adminpb.MemberPlanRequest{Verb: "replace"}}
	cmd := v.command("replace MEMBER", "Have an empty controller take the place of one that is gone",
		"Takes out a controller that does not answer, and shows how the one that takes its place joins, catches up and votes.\n"+
			"Start that one with an empty data folder and --join, at the old address or at another one (--address). MEMBER is an\n"+
			"id, a name or an address; with --yes the id that the plan shows. The same command goes on where it ended.",
		"a member's id, name or address")
	cmd.Flags().StringVar(&v.req.Address, "address", "", "Raft `address` of the new controller; the old one's by default")
	return cmd
}
