package admin

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// zoned are members of which the first three vote, in these zones.
func zoned(members []Member, zones ...string) []Member {
	for i, zone := range zones {
		if i >= len(members) {
			members = append(members, Member{Name: "c" + string(rune('1'+i)), MemberID: idOf(i + 1), Address: "x:9800"})
		}
		members[i].Zone = zone
	}
	return members
}

func (w *env) nodeInZone(node, zone string) {
	w.mustApply(&fsmpb.Command{Actor: "node/" + node, Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
		NodeId: node, HostId: "host-" + node, BootId: "boot", FeatureLevel: 3, Labels: []*fsmpb.Label{{Key: "topology.holdfast.storage/zone", Value: zone}},
		Pools: []*fsmpb.Pool{{PoolId: "pool-" + node, Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 100}}}}})
}

func TestTheSpreadOfVoters(t *testing.T) {
	for name, tc := range map[string]struct {
		zones    []string // of the voters c1, c2 and c3, then of others
		node     string
		severity string
		want     string
	}{
		"three zones":                            {zones: []string{"a", "b", "c"}, severity: SeverityOK, want: "the voters are in 3 zones, and outlive the loss of one"},
		"two of three, and a third one is there": {zones: []string{"a", "a", "b", "c"}, severity: SeverityWarn, want: "2 of 3 voters are in zone a: the quorum is lost with it"},
		"a host is in a third one":               {zones: []string{"a", "a", "b"}, node: "c", severity: SeverityWarn, want: "the zones a, b, c allow a better spread"},
		"two zones do not allow it":              {zones: []string{"a", "a", "b"}, severity: SeverityOK, want: "2 zones are known, and 3 voters outlive the loss of one when they are spread over 3"},
		"one zone":                               {zones: []string{"a", "a", "a"}, severity: SeverityOK, want: "3 of 3 voters are in zone a"},
		"one does not say":                       {zones: []string{"a", "a", ""}, node: "c", severity: SeverityOK, want: "1 voter in no zone that is known"},
		"nobody says":                            {},
	} {
		t.Run(name, func(t *testing.T) {
			w := wellEnv(t)
			w.members = zoned(w.members, tc.zones...)
			if tc.node != "" {
				w.nodeInZone("n9", tc.node)
			}
			for range 2 {
				var found []string
				for _, d := range checkZones(&patient{state: w.state, members: w.members}) {
					require.Equal(t, tc.severity, d.GetSeverity())
					found = append(found, d.GetFound()+"; "+d.GetRemedy())
				}
				require.Equal(t, tc.want != "", len(found) > 0)
				require.Contains(t, strings.Join(found, "\n"), tc.want)
			}
		})
	}
}

func TestHowManyZonesVotersNeed(t *testing.T) {
	for voters, want := range map[int]int{0: 0, 1: 0, 2: 0, 3: 3, 4: 4, 5: 3, 7: 3} {
		require.Equal(t, want, (&spread{voters: voters}).needed(), "%d voters", voters)
	}
}

// A plan warns of the spread that it leads to, where another one is possible, and goes on all the same.
func TestPlansOfMembersWarnOfTheSpread(t *testing.T) {
	for name, tc := range map[string]struct {
		zones []string
		want  string
	}{
		"into a zone that has one": {[]string{"a", "b", "b", "c"}, "record todo, vote follows, spread follows"},
		"into another one":         {[]string{"a", "b", "c", "c"}, "record todo, vote follows"},
		"zones are not known":      {nil, "record todo, vote follows"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newFakeMembership(t)
			v.members = zoned(v.members, tc.zones...)
			v.recordNonVoter(2)
			v.members[1].Voter = false
			for range 2 {
				resp, err := v.server.PlanMember(t.Context(), &adminpb.MemberPlanRequest{Verb: "promote", Member: "c2"})
				require.NoError(t, err)
				require.Equal(t, tc.want, steps(resp))
			}
		})
	}
}
