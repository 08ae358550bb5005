package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

func TestS71_ChangesOfMembersCarryAnID(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"remove by a name":         {[]string{"members", "remove", "c2", "--yes"}, "name the member by the id that the plan shows"},
		"replace by an address":    {[]string{"members", "replace", "c2:9800", "--yes"}, "name the member by the id that the plan shows"},
		"add without an id":        {[]string{"members", "add", "c4:9800", "--yes"}, "--member-id"},
		"remove without a member":  {[]string{"members", "remove", "--yes"}, "a member's id, name or address"},
		"demote by a name":         {[]string{"members", "demote", "c2", "--yes"}, "name the member by the id that the plan shows"},
		"transfer to anybody":      {[]string{"members", "transfer", "--yes"}, "name the member by the id that the plan shows"},
		"a verb that there is not": {[]string{"members", "bury", "c2"}, `no command "bury"`},
	} {
		t.Run(name, func(t *testing.T) {
			args := append(tc.args, (&fakeAdminAPI{}).serve(t)...)
			var stdout, stderr bytes.Buffer
			for range 2 {
				stderr.Reset()
				require.Equal(t, 2, Main(args, &stdout, &stderr), stderr.String())
				require.Contains(t, stderr.String(), tc.want)
			}
		})
	}
}

// fakeMemberAPI answers each plan of a membership change with one step in a state.
type fakeMemberAPI struct {
	adminpb.UnimplementedAdminServer
	state string
}

func (m fakeMemberAPI) PlanMember(_ context.Context, req *adminpb.MemberPlanRequest) (*adminpb.MemberPlanResponse, error) {
	return &adminpb.MemberPlanResponse{Verb: req.GetVerb(), MemberId: "the-id", Address: "c4:9800", Summary: "the summary", Done: m.state == "done",
		Steps: []*adminpb.PlanStep{{Action: "step", State: m.state}}}, nil
}

// TestAMemberPlanWithNothingToDoOffersNothing: only a plan with steps to do suggests --yes.
func TestAMemberPlanWithNothingToDoOffersNothing(t *testing.T) {
	for state, offers := range map[string]bool{"todo": true, "blocked": false, "waiting": false, "done": false} {
		t.Run(state, func(t *testing.T) {
			flags := serveAdmin(t, fakeMemberAPI{state: state})
			for _, verb := range []string{"add", "remove", "replace", "demote", "promote", "transfer"} {
				var stdout, stderr bytes.Buffer
				require.Zero(t, Main(append([]string{"members", verb, "c4:9800"}, flags...), &stdout, &stderr), stderr.String())
				require.Contains(t, stdout.String(), "the summary")
				require.Equal(t, offers, strings.Contains(stderr.String(), "--yes` carries this out"), "%s: %s", verb, stderr.String())
			}
		})
	}
}
