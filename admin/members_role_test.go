package admin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func (v *fakeMembership) recordNonVoter(n int) {
	v.mustApply(&fsmpb.Command{Actor: "admin/ann", Body: &fsmpb.Command_SetMemberRole{SetMemberRole: &fsmpb.SetMemberRole{MemberId: idOf(n), NonVoter: true}}})
}

func TestPlansOfMembersRoles(t *testing.T) {
	for name, tc := range map[string]struct {
		with   func(*fakeMembership)
		req    *adminpb.MemberPlanRequest
		want   string
		detail string
	}{
		"a voter is demoted":         {req: &adminpb.MemberPlanRequest{Verb: "demote", Member: "c2"}, want: "record todo, demote todo", detail: "no leader promotes it"},
		"one that is demoted":        {with: func(v *fakeMembership) { v.recordNonVoter(2); v.members[1].Voter = false }, req: &adminpb.MemberPlanRequest{Verb: "demote", Member: "c2"}, want: "record done, demote done"},
		"one that was recorded only": {with: func(v *fakeMembership) { v.recordNonVoter(2) }, req: &adminpb.MemberPlanRequest{Verb: "demote", Member: "c2"}, want: "record done, demote todo"},
		"one that catches up":        {with: func(v *fakeMembership) { v.members[1].Voter = false }, req: &adminpb.MemberPlanRequest{Verb: "demote", Member: "c2"}, want: "record todo, demote done"},
		"the quorum would be lost":   {with: func(v *fakeMembership) { v.members[2].Err = errUnreachable }, req: &adminpb.MemberPlanRequest{Verb: "demote", Member: "c2"}, want: "record blocked, demote blocked", detail: "no quorum"},
		"the others are not ready":   {with: func(v *fakeMembership) { v.members[2].Trouble = "the disk is full" }, req: &adminpb.MemberPlanRequest{Verb: "demote", Member: "c2"}, want: "record blocked, demote blocked", detail: "no quorum"},
		"removed beside a full disk": {with: func(v *fakeMembership) { v.members[2].Trouble = "the disk is full" }, req: &adminpb.MemberPlanRequest{Verb: "remove", Member: "c2"}, want: "remove blocked", detail: "are ready"},
		"a full disk is removed":     {with: func(v *fakeMembership) { v.members[2].Trouble = "the disk is full" }, req: &adminpb.MemberPlanRequest{Verb: "remove", Member: "c3"}, want: "remove todo"},
		"beside a demoted one":       {with: func(v *fakeMembership) { v.recordNonVoter(3); v.members[2].Voter = false }, req: &adminpb.MemberPlanRequest{Verb: "remove", Member: "c2"}, want: "remove todo"},
		"a demoted one is removed":   {with: func(v *fakeMembership) { v.recordNonVoter(3); v.members[2].Voter = false }, req: &adminpb.MemberPlanRequest{Verb: "remove", Member: "c3"}, want: "remove todo, forget todo"},
		"one that stays keeps it":    {with: func(v *fakeMembership) { v.recordNonVoter(2); v.members[2].Err = errUnreachable }, req: &adminpb.MemberPlanRequest{Verb: "remove", Member: "c2"}, want: "remove blocked", detail: "no quorum"},
		"a demoted one is replaced": {with: func(v *fakeMembership) {
			v.recordNonVoter(2)
			v.members[1].Voter, v.members[1].Err = false, errUnreachable
		}, req: &adminpb.MemberPlanRequest{Verb: "replace", Member: "c2"}, want: "remove todo, forget todo, join follows, vote follows"},
		"a voter is promoted":        {req: &adminpb.MemberPlanRequest{Verb: "promote", Member: "c2"}, want: "record done, vote done"},
		"a demoted one is promoted":  {with: func(v *fakeMembership) { v.recordNonVoter(2); v.members[1].Voter = false }, req: &adminpb.MemberPlanRequest{Verb: "promote", Member: "c2"}, want: "record todo, vote follows"},
		"one that is to be promoted": {with: func(v *fakeMembership) { v.members[1].Voter = false }, req: &adminpb.MemberPlanRequest{Verb: "promote", Member: "c2"}, want: "record done, vote waiting"},
		"one to promote is away":     {with: func(v *fakeMembership) { v.members[1].Voter, v.members[1].Err = false, errUnreachable }, req: &adminpb.MemberPlanRequest{Verb: "promote", Member: "c2"}, want: "record done, vote waiting"},
		"a demoted one is shown":     {with: func(v *fakeMembership) { v.recordNonVoter(2); v.members[1].Voter = false }, req: &adminpb.MemberPlanRequest{Verb: "add", Member: "c2:9800"}, want: "join done, vote follows"},
		"leadership to one":          {req: &adminpb.MemberPlanRequest{Verb: "transfer", Member: "c3"}, want: "transfer todo", detail: idOf(3)},
		"leadership to any":          {with: func(v *fakeMembership) { v.members[2].Applied = 9 }, req: &adminpb.MemberPlanRequest{Verb: "transfer"}, want: "transfer todo", detail: idOf(3)},
		"to the one that leads":      {req: &adminpb.MemberPlanRequest{Verb: "transfer", Member: "c1"}, want: "transfer done"},
		"to one that does not vote":  {with: func(v *fakeMembership) { v.members[1].Voter = false }, req: &adminpb.MemberPlanRequest{Verb: "transfer", Member: "c2"}, want: "transfer blocked", detail: "does not vote"},
		"to one that is away":        {with: func(v *fakeMembership) { v.members[1].Err = errUnreachable }, req: &adminpb.MemberPlanRequest{Verb: "transfer", Member: "c2"}, want: "transfer blocked", detail: "does not answer"},
		"to one with a full disk":    {with: func(v *fakeMembership) { v.members[1].Trouble = "the disk is full" }, req: &adminpb.MemberPlanRequest{Verb: "transfer", Member: "c2"}, want: "transfer blocked", detail: "the disk is full"},
		"to nobody": {with: func(v *fakeMembership) { v.members[1].Trouble, v.members[2].Err = "x", errUnreachable }, req: &adminpb.MemberPlanRequest{Verb: "transfer"}, want: "transfer blocked",
			detail: "no other voter"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newFakeMembership(t)
			if tc.with != nil {
				tc.with(v)
			}
			index := v.index
			for range 2 {
				resp, err := v.server.PlanMember(t.Context(), tc.req)
				require.NoError(t, err)
				require.Equal(t, tc.want, steps(resp))
				require.Contains(t, resp.GetSteps()[0].GetDetail(), tc.detail)
			}
			require.Equal(t, index, v.index, "a plan changes nothing")
			require.Empty(t, v.moved)
		})
	}
	v := newFakeMembership(t)
	for _, verb := range []string{"demote", "promote", "transfer"} {
		_, err := v.server.PlanMember(t.Context(), &adminpb.MemberPlanRequest{Verb: verb, Member: idOf(9)})
		require.Equal(t, codes.FailedPrecondition, status.Code(err), verb)
		_, err = v.server.PlanMember(t.Context(), &adminpb.MemberPlanRequest{Verb: verb, Member: "nobody"})
		require.Equal(t, codes.NotFound, status.Code(err), verb)
	}
}

func TestMembersAreDemotedPromotedAndLead(t *testing.T) {
	v := newFakeMembership(t)
	change := func(verb string, n int, want string) {
		t.Helper()
		for range 2 {
			resp, err := v.server.ChangeMember(t.Context(), &adminpb.MemberPlanRequest{Verb: verb, Member: idOf(n), MemberId: idOf(n)})
			require.NoError(t, err)
			require.Equal(t, want, steps(resp))
		}
	}
	change("demote", 2, "record done, demote done")
	require.Equal(t, []string{idOf(2)}, v.moved)
	require.Equal(t, "admin/alice", v.log[len(v.log)-1].Command.GetActor())
	change("promote", 2, "record done, vote waiting")
	c := v.state.Cluster()
	require.False(t, c.IsNonVoter(idOf(2)))
	change("transfer", 3, "transfer done")
	require.Equal(t, []string{idOf(2), idOf(3)}, v.moved)
	v.members[1].Voter = true
	v.recordNonVoter(3)
	change("remove", 3, "remove done")
	c = v.state.Cluster()
	require.False(t, c.IsNonVoter(idOf(3)), "it is forgotten with the member")
	v.members = append(v.members, Member{MemberID: idOf(4), Voter: true})
	v.refuse = "of the 2 voters that were left only 1 answer"
	resp, err := v.server.ChangeMember(t.Context(), &adminpb.MemberPlanRequest{Verb: "demote", Member: idOf(1), MemberId: idOf(1)})
	require.NoError(t, err)
	require.Equal(t, "record todo, demote blocked", steps(resp), "it is shown as it was done")
}

// A build of level 2 would not know what is recorded.
func TestADemotionNeedsFeatureLevel3(t *testing.T) {
	v := newFakeMembership(t)
	v.env.state = levelOf(2)
	resp, err := v.server.PlanMember(t.Context(), &adminpb.MemberPlanRequest{Verb: "demote", Member: "c2"})
	require.NoError(t, err)
	require.Equal(t, "record blocked, demote todo", steps(resp))
	require.Contains(t, resp.GetSteps()[0].GetDetail(), "holdfast upgrade finish")
}

func TestMembersShowTheirHealth(t *testing.T) {
	v := newFakeMembership(t)
	v.members[0].Commit, v.members[0].ClockAhead = 9, time.Second
	v.members[1].DiskFree, v.members[1].SlowestSync, v.members[1].ClockAhead = 1<<30, 3*time.Millisecond, 1500*time.Millisecond
	v.members[2].Trouble = "the disk is full"
	for range 2 {
		resp, err := v.server.Members(t.Context(), &adminpb.MembersRequest{})
		require.NoError(t, err)
		leader, follower, full := resp.GetMembers()[0], resp.GetMembers()[1], resp.GetMembers()[2]
		require.False(t, leader.GetStoppable())
		require.Equal(t, "1 of 3 voters would be left that are ready, and a quorum is 2", leader.GetStopReason())
		require.True(t, full.GetStoppable(), "the others are a quorum")
		require.Equal(t, "the disk is full", full.GetTrouble())
		require.EqualValues(t, 4, follower.GetLag())
		require.EqualValues(t, 1<<30, follower.GetDiskFreeBytes())
		require.InDelta(t, 0.003, follower.GetSlowestSyncSeconds(), 1e-9)
		require.InDelta(t, 0.5, follower.GetClockOffsetSeconds(), 1e-9)
		require.Zero(t, leader.GetClockOffsetSeconds())
		text := tableOf(t, resp)
		require.Contains(t, text, "1 GiB")
		require.Contains(t, text, "no: 1 of 3 voters")
	}
}

func TestWhichMembersMayStop(t *testing.T) {
	voter := func(n int) Member { return Member{MemberID: idOf(n), Voter: true} }
	away := Member{MemberID: idOf(7), Voter: true, Err: errUnreachable}
	full := Member{MemberID: idOf(8), Voter: true, Trouble: "the disk is full"}
	for name, tc := range map[string]struct {
		members []Member
		of      int
		may     bool
		left    int
	}{
		"one of three":               {[]Member{voter(1), voter(2), voter(3)}, 0, true, 2},
		"one of three, one away":     {[]Member{voter(1), voter(2), away}, 0, false, 1},
		"the one that is away":       {[]Member{voter(1), voter(2), away}, 2, true, 2},
		"one of three, one full":     {[]Member{voter(1), voter(2), full}, 0, false, 1},
		"the full one":               {[]Member{voter(1), voter(2), full}, 2, true, 2},
		"one of two":                 {[]Member{voter(1), voter(2)}, 0, false, 1},
		"the only one":               {[]Member{voter(1)}, 0, false, 0},
		"one of five, one away":      {[]Member{voter(1), voter(2), voter(3), voter(4), away}, 0, true, 3},
		"a non-voter":                {[]Member{voter(1), {MemberID: idOf(2)}}, 1, true, 1},
		"the full one, one is away":  {[]Member{voter(1), full, away}, 1, false, 1},
		"one of four":                {[]Member{voter(1), voter(2), voter(3), voter(4)}, 0, true, 3},
		"one of four, one away":      {[]Member{voter(1), voter(2), voter(3), away}, 0, false, 2},
		"one of three and nonvoters": {[]Member{voter(1), voter(2), voter(3), {MemberID: idOf(4)}}, 2, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				may, why := MayStop(tc.members, &tc.members[tc.of])
				require.Equal(t, tc.may, may, why)
				require.NotEmpty(t, why)
				q := QuorumWithout(tc.members, func(m *Member) bool { return m.MemberID == tc.members[tc.of].MemberID })
				require.Equal(t, tc.left, q.Left)
			}
		})
	}
	require.Equal(t, 1, QuorumWithout([]Member{voter(1), voter(2), voter(3)}, func(*Member) bool { return false }).Tolerated())
	require.Zero(t, QuorumWithout([]Member{voter(1), voter(2), away}, func(*Member) bool { return false }).Tolerated())
	require.Zero(t, QuorumWithout(nil, func(*Member) bool { return false }).Tolerated())
}
