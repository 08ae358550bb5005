package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// S24: the survivor is the one whose log reaches furthest, and nobody has a quorum.
func TestS24_TheSurvivorIsCompared(t *testing.T) {
	reaches := func(id string, term, index uint64) *adminpb.Member {
		return &adminpb.Member{Id: "name-" + id, MemberId: id, Reachable: true, LastLogTerm: term, LastLogIndex: index}
	}
	answer := func(leader string, members ...*adminpb.Member) *adminpb.StatusResponse {
		return &adminpb.StatusResponse{ClusterId: "one", Leader: leader, Members: members}
	}
	for name, tc := range map[string]struct {
		answers []*adminpb.StatusResponse
		folders []compared
		without []string
		problem string // empty: it may be recovered
	}{
		"nothing is known of the others":    {problem: "voter b was not compared"},
		"one is not accounted for":          {without: []string{"b"}, problem: "voter c was not compared"},
		"the operator's word for all":       {without: []string{"b", "c"}},
		"one answers and has less":          {answers: []*adminpb.StatusResponse{answer("", reaches("b", 5, 99))}, without: []string{"c"}},
		"one answers and has as much":       {answers: []*adminpb.StatusResponse{answer("", reaches("b", 5, 100))}, without: []string{"c"}},
		"one answers and has more":          {answers: []*adminpb.StatusResponse{answer("", reaches("b", 5, 101))}, without: []string{"c"}, problem: "recover there"},
		"one has less of a later term":      {answers: []*adminpb.StatusResponse{answer("", reaches("b", 6, 1))}, without: []string{"c"}, problem: "recover there"},
		"one has more of an earlier term":   {answers: []*adminpb.StatusResponse{answer("", reaches("b", 4, 500))}, without: []string{"c"}},
		"one does not reach another":        {answers: []*adminpb.StatusResponse{answer("", reaches("b", 5, 99), &adminpb.Member{MemberId: "c"})}, problem: "voter c was not compared"},
		"two answer":                        {answers: []*adminpb.StatusResponse{answer("", reaches("b", 5, 1), reaches("c", 5, 2))}},
		"a leader is known":                 {answers: []*adminpb.StatusResponse{answer("c", reaches("b", 5, 99))}, without: []string{"c"}, problem: "has a quorum"},
		"one leads":                         {answers: []*adminpb.StatusResponse{answer("", &adminpb.Member{MemberId: "b", Role: "leader", Reachable: true, LastLogTerm: 5, LastLogIndex: 9})}, without: []string{"c"}, problem: "leads"},
		"an older build answers":            {answers: []*adminpb.StatusResponse{answer("", reaches("b", 0, 0))}, without: []string{"c"}, problem: "does not say how far"},
		"this member runs elsewhere":        {answers: []*adminpb.StatusResponse{answer("", reaches("a", 5, 100))}, without: []string{"b", "c"}, problem: "of this same member"},
		"another cluster answers":           {answers: []*adminpb.StatusResponse{{ClusterId: "two", Members: []*adminpb.Member{reaches("b", 1, 1)}}}, without: []string{"b", "c"}, problem: "of cluster two"},
		"a folder has less":                 {folders: []compared{{member: "b", cluster: "one", term: 5, index: 1}}, without: []string{"c"}},
		"a folder has more":                 {folders: []compared{{member: "b", cluster: "one", term: 5, index: 101}}, without: []string{"c"}, problem: "recover there"},
		"the answers differ: the most":      {answers: []*adminpb.StatusResponse{answer("", reaches("b", 5, 101)), answer("", reaches("b", 5, 99))}, without: []string{"c"}, problem: "recover there"},
		"a word against what was found":     {answers: []*adminpb.StatusResponse{answer("", reaches("b", 5, 99))}, without: []string{"b", "c"}, problem: "and it was found"},
		"a word for one that is no voter":   {without: []string{"b", "c", "d"}, problem: "no other voter"},
		"a word for the survivor":           {without: []string{"a", "b", "c"}, problem: "no other voter"},
		"one that is no voter and has more": {folders: []compared{{member: "d", cluster: "one", term: 9, index: 9}}, without: []string{"b", "c"}, problem: "recover there"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &comparison{own: compared{member: "a", cluster: "one", term: 5, index: 100}, voters: []string{"a", "b", "c"}, others: map[string]compared{}}
			for range 2 {
				for _, a := range tc.answers {
					c.addStatus("endpoint", a)
				}
				for _, f := range tc.folders {
					c.add(f)
				}
				found := strings.Join(c.problems(tc.without), "; ")
				if tc.problem == "" {
					require.Empty(t, found)
				} else {
					require.Contains(t, found, tc.problem)
				}
			}
		})
	}
}
