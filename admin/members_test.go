package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// fakeMembership simulates a Raft configuration, and the controllers that listen at addresses.
type fakeMembership struct {
	*env
	probed  map[string]PeerStatus
	refuse  string
	removed []string
	added   []string
	asked   []string // addresses whose status was requested
	moved   []string // members that were demoted, or got the leadership
}

func idOf(n int) string { return "00000000-0000-4000-8000-00000000000" + string(rune('0'+n)) }

func newFakeMembership(t *testing.T) *fakeMembership {
	v := &fakeMembership{env: newEnv(t), probed: map[string]PeerStatus{}}
	for i, name := range []string{"c1", "c2", "c3"} {
		v.members = append(v.members, Member{Name: name, MemberID: idOf(i + 1), Address: name + ":9800", Voter: true, Role: "follower", Term: 1, Applied: 5})
	}
	v.members[0].Role = "leader"
	v.server.Membership = v
	return v
}

func (v *fakeMembership) StatusAt(_ context.Context, addr string) (PeerStatus, error) {
	v.asked = append(v.asked, addr)
	if who, ok := v.probed[addr]; ok {
		return who, nil
	}
	return PeerStatus{}, errors.New("nobody is there")
}

func (v *fakeMembership) Add(_ context.Context, id, addr string) error {
	v.added = append(v.added, id)
	v.members = append(v.members, Member{Name: v.probed[addr].Name, MemberID: id, Address: addr, Applied: 1})
	return nil
}

func (v *fakeMembership) Remove(_ context.Context, id string) error {
	if v.refuse != "" {
		return fsm.Reject(fsm.Precondition, "%s", v.refuse)
	}
	v.removed = append(v.removed, id)
	var rest []Member
	for _, m := range v.members {
		if m.MemberID != id {
			rest = append(rest, m)
		}
	}
	v.members = rest
	return nil
}

func (v *fakeMembership) Demote(_ context.Context, id string) error {
	if v.refuse != "" {
		return fsm.Reject(fsm.Precondition, "%s", v.refuse)
	}
	if c := v.state.Cluster(); !c.IsNonVoter(id) {
		return fsm.Reject(fsm.Precondition, "it is not recorded")
	}
	v.moved = append(v.moved, id)
	for i := range v.members {
		if v.members[i].MemberID == id {
			v.members[i].Voter, v.members[i].Role = false, "nonvoter"
		}
	}
	return nil
}

func (v *fakeMembership) Transfer(_ context.Context, id string) error {
	v.moved = append(v.moved, id)
	for i := range v.members {
		v.members[i].Role = "follower"
		if v.members[i].MemberID == id {
			v.members[i].Role = "leader"
		}
	}
	return nil
}

func steps(resp *adminpb.MemberPlanResponse) string {
	var all []string
	for _, s := range resp.GetSteps() {
		all = append(all, s.GetAction()+" "+s.GetState())
	}
	return strings.Join(all, ", ")
}

var errUnreachable = errors.New("connection refused")

func TestPlansOfMembers(t *testing.T) {
	for name, tc := range map[string]struct {
		with   func(*fakeMembership)
		req    *adminpb.MemberPlanRequest
		want   string
		detail string
	}{
		"a member goes":                      {req: &adminpb.MemberPlanRequest{Verb: "remove", Member: "c2"}, want: "remove todo", detail: idOf(2)},
		"by its address":                     {req: &adminpb.MemberPlanRequest{Verb: "remove", Member: "c2:9800"}, want: "remove todo", detail: idOf(2)},
		"one that is gone":                   {req: &adminpb.MemberPlanRequest{Verb: "remove", Member: idOf(9)}, want: "remove done", detail: idOf(9)},
		"the quorum would be lost":           {with: func(v *fakeMembership) { v.members[2].Err = errUnreachable }, req: &adminpb.MemberPlanRequest{Verb: "remove", Member: "c2"}, want: "remove blocked", detail: "no quorum"},
		"the dead one goes":                  {with: func(v *fakeMembership) { v.members[2].Err = errUnreachable }, req: &adminpb.MemberPlanRequest{Verb: "remove", Member: "c3"}, want: "remove todo", detail: idOf(3)},
		"another one is catching up":         {with: func(v *fakeMembership) { v.members[2].Voter = false }, req: &adminpb.MemberPlanRequest{Verb: "remove", Member: "c2"}, want: "remove blocked", detail: idOf(3)},
		"the one that is catching up":        {with: func(v *fakeMembership) { v.members[2].Voter = false }, req: &adminpb.MemberPlanRequest{Verb: "remove", Member: "c3"}, want: "remove todo", detail: idOf(3)},
		"the last voter":                     {with: func(v *fakeMembership) { v.members = v.members[:1] }, req: &adminpb.MemberPlanRequest{Verb: "remove", Member: "c1"}, want: "remove blocked", detail: "last voter"},
		"one that works is not replaced":     {req: &adminpb.MemberPlanRequest{Verb: "replace", Member: "c2"}, want: "remove blocked", detail: "holdfast members remove"},
		"a dead one is replaced":             {with: func(v *fakeMembership) { v.members[1].Err = errUnreachable }, req: &adminpb.MemberPlanRequest{Verb: "replace", Member: "c2"}, want: "remove todo, join follows, vote follows", detail: idOf(2)},
		"no replacement during a catch-up":   {with: func(v *fakeMembership) { v.members[1].Err = errUnreachable; v.members[2].Voter = false }, req: &adminpb.MemberPlanRequest{Verb: "replace", Member: "c2"}, want: "remove blocked, join follows, vote follows", detail: "catching up"},
		"its successor is catching up":       {with: func(v *fakeMembership) { v.members[1].MemberID, v.members[1].Voter = idOf(8), false }, req: &adminpb.MemberPlanRequest{Verb: "replace", Member: idOf(2), Address: "c2:9800"}, want: "remove done, join done, vote waiting", detail: "not in the configuration"},
		"its successor votes":                {with: func(v *fakeMembership) { v.members[1].MemberID = idOf(8) }, req: &adminpb.MemberPlanRequest{Verb: "replace", Member: idOf(2), Address: "c2:9800"}, want: "remove done, join done, vote done", detail: "not in the configuration"},
		"nobody waits at the address":        {req: &adminpb.MemberPlanRequest{Verb: "add", Member: "c4:9800"}, want: "start waiting", detail: "--join"},
		"one waits at the address":           {with: func(v *fakeMembership) { v.probed["c4:9800"] = PeerStatus{Name: "c4", MemberID: idOf(4)} }, req: &adminpb.MemberPlanRequest{Verb: "add", Member: "c4:9800"}, want: "join todo, vote follows", detail: idOf(4)},
		"one of another cluster waits there": {with: func(v *fakeMembership) { v.probed["c4:9800"] = PeerStatus{MemberID: idOf(4), ClusterID: "other"} }, req: &adminpb.MemberPlanRequest{Verb: "add", Member: "c4:9800"}, want: "join blocked, vote follows", detail: "belongs to cluster other"},
		"one that votes already":             {req: &adminpb.MemberPlanRequest{Verb: "add", Member: "c3:9800"}, want: "join done, vote done", detail: idOf(3)},
	} {
		t.Run(name, func(t *testing.T) {
			v := newFakeMembership(t)
			if tc.with != nil {
				tc.with(v)
			}
			for range 2 {
				resp, err := v.server.PlanMember(t.Context(), tc.req)
				require.NoError(t, err)
				require.Equal(t, tc.want, steps(resp))
				require.Contains(t, resp.GetSteps()[0].GetDetail(), tc.detail)
			}
			require.Empty(t, v.removed)
			require.Empty(t, v.added)
		})
	}
}

// S70: a viewer's plan connects to no address.
func TestS70_ViewersPlanProbesNobody(t *testing.T) {
	v := newFakeMembership(t)
	v.members[1].Err = errUnreachable
	v.probed["c4:9800"] = PeerStatus{Name: "c4", MemberID: idOf(4)}
	for actor, asks := range map[string]int{"viewer/bob": 0, "admin/alice": 1} {
		v.server.Actor = func(context.Context) (string, error) { return actor, nil }
		for _, req := range []*adminpb.MemberPlanRequest{{Verb: "add", Member: "c4:9800"}, {Verb: "replace", Member: "c2", Address: "c4:9800"}} {
			v.asked = nil
			resp, err := v.server.PlanMember(t.Context(), req)
			require.NoError(t, err)
			require.Len(t, v.asked, asks, "%s plans to %s", actor, req.GetVerb())
			if asks == 0 {
				require.Contains(t, fmt.Sprint(resp.GetSteps()), "an admin is shown who waits there")
			}
		}
		resp, err := v.server.PlanMember(t.Context(), &adminpb.MemberPlanRequest{Verb: "add", Member: "c3:9800"})
		require.NoError(t, err)
		require.Equal(t, "join done, vote done", steps(resp), "what the configuration has is for all")
	}
}

func TestS71_MemberChangeNeedsThePlannedID(t *testing.T) {
	v := newFakeMembership(t)
	for name, id := range map[string]string{"none": "", "a name": "c2"} {
		_, err := v.server.ChangeMember(t.Context(), &adminpb.MemberPlanRequest{Verb: "remove", Member: "c2", MemberId: id})
		require.Equal(t, codes.InvalidArgument, status.Code(err), name)
	}
	remove := &adminpb.MemberPlanRequest{Verb: "remove", Member: "c2", MemberId: idOf(2)}
	for range 2 { // the second time another member has the name and the address
		resp, err := v.server.ChangeMember(t.Context(), remove)
		require.NoError(t, err)
		require.Equal(t, "remove done", steps(resp))
		require.True(t, resp.GetDone())
		if len(v.members) == 2 {
			v.members = append(v.members, Member{Name: "c2", MemberID: idOf(8), Address: "c2:9800", Voter: true})
		}
	}
	require.Equal(t, []string{idOf(2)}, v.removed)
	v.probed["c4:9800"] = PeerStatus{Name: "c4", MemberID: idOf(4)}
	_, err := v.server.ChangeMember(t.Context(), &adminpb.MemberPlanRequest{Verb: "add", Member: "c4:9800", MemberId: idOf(5)})
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "another controller waits there now")
	require.Empty(t, v.added)
}

func TestMemberChangesResume(t *testing.T) {
	v := newFakeMembership(t)
	v.members[1].Err = errUnreachable
	v.probed["c2:9800"] = PeerStatus{Name: "c2", MemberID: idOf(8), Detail: "it waits"}
	req := &adminpb.MemberPlanRequest{Verb: "replace", MemberId: idOf(2)}
	resp, err := v.server.ChangeMember(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, "remove done, join waiting, vote follows", steps(resp))
	require.Equal(t, "c2:9800", resp.GetAddress(), "who goes on needs it: the configuration does not have it any more")
	resp, err = v.server.ChangeMember(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, "remove done, join follows", steps(resp))
	req.Address = "c2:9800"
	resp, err = v.server.ChangeMember(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, "remove done, join waiting, vote follows", steps(resp))
	require.False(t, resp.GetDone())

	v.probed["c4:9800"] = PeerStatus{Name: "c4", MemberID: idOf(4)}
	add := &adminpb.MemberPlanRequest{Verb: "add", Member: "c4:9800", MemberId: idOf(4)}
	for range 2 {
		resp, err = v.server.ChangeMember(t.Context(), add)
		require.NoError(t, err)
		require.Equal(t, "join done, vote waiting", steps(resp))
	}
	require.Equal(t, []string{idOf(4)}, v.added)
	v.refuse = "it would do harm"
	resp, err = v.server.ChangeMember(t.Context(), &adminpb.MemberPlanRequest{Verb: "remove", MemberId: idOf(4)})
	require.NoError(t, err)
	require.Equal(t, "remove blocked", steps(resp))
	require.Contains(t, resp.GetSteps()[0].GetDetail(), "harm")
}

func TestMembersNeedAQuorumAndAKnownName(t *testing.T) {
	v := newFakeMembership(t)
	for range 2 {
		_, err := v.server.PlanMember(t.Context(), &adminpb.MemberPlanRequest{Verb: "remove", Member: "c9"})
		require.Equal(t, codes.NotFound, status.Code(err))
		_, err = v.server.PlanMember(t.Context(), &adminpb.MemberPlanRequest{Verb: "bury", Member: "c2"})
		require.Equal(t, codes.InvalidArgument, status.Code(err))
	}
	v.members[2].Name = "c2"
	_, err := v.server.PlanMember(t.Context(), &adminpb.MemberPlanRequest{Verb: "remove", Member: "c2"})
	require.Equal(t, codes.InvalidArgument, status.Code(err), "two have the name")
	v.quorum = errNoQuorum
	_, err = v.server.Members(t.Context(), &adminpb.MembersRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err))
}
