package admin

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S32: whoever raises the level is told which nodes no controller acts for: nobody noticed while sites meant nothing. The
// level is raised all the same.
func TestS32_FinishUpgradeWarnsOfSites(t *testing.T) {
	at := func(sites ...string) (all []Member) {
		for i, site := range sites {
			all = append(all, Member{Name: "c" + string(rune('1'+i)), Level: fsm.MaxFeatureLevel, Site: site})
		}
		return all
	}
	for name, tc := range map[string]struct {
		members []Member
		nodes   map[string]string
		lost    string
		want    []string
	}{
		"all at one":                {members: at("default", "default"), nodes: map[string]string{"n1": "", "n2": "default"}},
		"all at two":                {members: at("A", "B"), nodes: map[string]string{"n1": "A", "n2": "B"}},
		"nobody acts for a node":    {members: at("A", "A"), nodes: map[string]string{"n1": "A", "n2": "B", "n3": "B"}, want: []string{"node n2, n3 registered at site B, for which no controller acts"}},
		"one that is lost":          {members: at("A"), nodes: map[string]string{"n1": "A", "n2": "B"}, lost: "n2"},
		"a site by mistake":         {members: at("A", "default"), nodes: map[string]string{"n1": "A"}, want: []string{"controller c2 acts for site default, where no node is"}},
		"the other way round":       {members: at("A"), nodes: map[string]string{"n1": ""}, want: []string{"node n1 registered at site default", "controller c1 acts for site A"}},
		"no name of a site":         {members: at("A"), nodes: map[string]string{"n1": "A", "n2": "a b"}, want: []string{"node n2 registered with what is no name of a site"}},
		"a controller does not say": {members: at("A", ""), nodes: map[string]string{"n1": "B"}},
		"there is no node yet":      {members: at("A")},
		"many nodes are not all named": {members: at("A"), nodes: map[string]string{"n0": "A", "n1": "B", "n2": "B", "n3": "B", "n4": "B", "n5": "B", "n6": "B"},
			want: []string{"node n1, n2, n3, n4, n5 and 1 more registered at site B"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnvAtLevel(t, fsm.Level1, nil)
			for n, site := range tc.nodes {
				w.mustApply(&fsmpb.Command{Actor: "node/" + n, Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
					NodeId: n, HostId: "host-" + n, BootId: "boot", FeatureLevel: fsm.MaxFeatureLevel, Site: site}}})
			}
			if tc.lost != "" {
				w.mustApply(&fsmpb.Command{Actor: "admin/ann", Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{NodeId: tc.lost, HostId: "host-" + tc.lost}}})
			}
			w.members = tc.members
			for range 2 {
				plan, err := w.server.UpgradeStatus(t.Context(), &adminpb.UpgradeRequest{})
				require.NoError(t, err)
				require.True(t, plan.GetReady())
				require.Len(t, plan.GetWarnings(), len(tc.want))
				var out bytes.Buffer
				require.NoError(t, Print(&out, "table", plan))
				for i, want := range tc.want {
					require.Contains(t, plan.GetWarnings()[i], want)
					require.Contains(t, out.String(), "WARNING: "+want)
				}
			}
			for range 2 {
				resp, err := w.server.FinishUpgrade(t.Context(), &adminpb.UpgradeRequest{})
				require.NoError(t, err)
				require.True(t, resp.GetDone())
			}
			done, err := w.server.UpgradeStatus(t.Context(), &adminpb.UpgradeRequest{})
			require.NoError(t, err)
			require.Empty(t, done.GetWarnings(), "it is raised")
		})
	}
	w := newEnvAtLevel(t, fsm.Level1, nil)
	w.members = []Member{{Name: "c1", Err: errors.New("refused")}}
	plan, err := w.server.UpgradeStatus(t.Context(), &adminpb.UpgradeRequest{})
	require.NoError(t, err)
	require.Empty(t, plan.GetWarnings())
}
