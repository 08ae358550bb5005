package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

func demoteMemberCommand() *cobra.Command {
	v := &memberVerb{req: &adminpb.MemberPlanRequest{Verb: "demote"}}
	return v.command("demote MEMBER", "Make a controller a non-voter, which stays one",
		"Records in the log that a controller is not to vote, and makes it a non-voter: it follows the log and serves, and counts\n"+
			"for no quorum. No leader promotes it again until `holdfast members promote`. It is refused when the voters that are left\n"+
			"would be no quorum. A leader hands leadership on first. MEMBER is an id, a name or an address; with --yes the id that the\n"+
			"plan shows.", "a member's id, name or address")
}

func promoteMemberCommand() *cobra.Command {
	v := &memberVerb{req: &adminpb.MemberPlanRequest{Verb: "promote"}}
	return v.command("promote MEMBER", "Let a controller vote that was demoted",
		"Ends what demote recorded: the leader makes the controller a voter by itself once it has caught up. MEMBER is an id, a\n"+
			"name or an address; with --yes the id that the plan shows. --wait waits until it votes.", "a member's id, name or address")
}

func transferCommand() *cobra.Command {
	v := &memberVerb{req: &adminpb.MemberPlanRequest{Verb: "transfer"}}
	return v.commandOf("transfer [MEMBER]", "Hand leadership to a controller",
		"Hands leadership to a voter that answers and is ready; without MEMBER the plan names the one that has applied most beside\n"+
			"the leader. Commands under way complete at the next leader. MEMBER is an id, a name or an address; with --yes the id that\n"+
			"the plan shows.", maxOneArg)
}
