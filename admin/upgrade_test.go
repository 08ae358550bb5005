package admin

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// newEnvAtLevel is a cluster at a feature level with nodes that support the given levels.
func newEnvAtLevel(t *testing.T, level uint32, nodes map[string]uint32) *env {
	t.Helper()
	w := newEnv(t)
	w.state, w.index, w.log = fsm.New(), 0, nil
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
		ClusterId: "cluster-1", IncarnationId: make([]byte, 16), FeatureLevel: level}}})
	for n, understands := range nodes {
		w.mustApply(&fsmpb.Command{Actor: "node/" + n, Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
			NodeId: n, HostId: "host-" + n, BootId: "boot", FeatureLevel: understands, Version: "v" + n}}})
	}
	return w
}

// S72: the level rises when all members and nodes support it, and the answer names those that do not;
// repeated, it changes nothing.
func TestS72_FinishUpgrade(t *testing.T) {
	ok := []Member{{Name: "c2", Level: fsm.MaxFeatureLevel}, {Name: "c1", Level: fsm.MaxFeatureLevel}}
	for name, tc := range map[string]struct {
		members []Member
		nodes   map[string]uint32
		lost    string
		at      uint32
		asked   uint32
		missing map[string]string
		done    bool
	}{
		"all understand it":                {members: ok, nodes: map[string]uint32{"n1": fsm.MaxFeatureLevel}, at: 1, done: true},
		"it is there already":              {members: ok, nodes: map[string]uint32{"n1": fsm.MaxFeatureLevel}, at: fsm.MaxFeatureLevel, done: true},
		"an old member":                    {members: []Member{{Name: "c1", Level: fsm.MaxFeatureLevel}, {Name: "c2", Level: 1}}, at: 1, missing: map[string]string{"c2": "upgrade it"}},
		"a silent member":                  {members: []Member{{Name: "c1", Level: fsm.MaxFeatureLevel}, {Address: "192.0.2.1:9", Err: errors.New("refused")}}, at: 1, missing: map[string]string{"192.0.2.1:9": "it does not answer: start it, or remove it (refused)"}},
		"an old node":                      {members: ok, nodes: map[string]uint32{"n1": fsm.MaxFeatureLevel, "n2": 1}, at: 1, missing: map[string]string{"n2": "upgrade it, or record it as lost when it is gone for good"}},
		"an old node that is lost":         {members: ok, nodes: map[string]uint32{"n1": fsm.MaxFeatureLevel, "n2": 1}, lost: "n2", at: 1, done: true},
		"a level that nobody has heard of": {members: ok, at: 1, asked: 9, missing: map[string]string{"c1": "upgrade it", "c2": "upgrade it"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnvAtLevel(t, tc.at, tc.nodes)
			w.members = tc.members
			if tc.lost != "" {
				w.mustApply(&fsmpb.Command{Actor: "admin/ann", Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{NodeId: tc.lost, HostId: "host-" + tc.lost}}})
			}
			req := &adminpb.UpgradeRequest{Level: tc.asked}
			before := w.index
			plan, err := w.server.UpgradeStatus(t.Context(), req)
			require.NoError(t, err)
			require.Equal(t, before, w.index, "a plan changes nothing")
			require.Equal(t, tc.missing == nil, plan.GetReady())
			for range 2 {
				resp, err := w.server.FinishUpgrade(context.Background(), req)
				require.NoError(t, err)
				require.Equal(t, tc.done, resp.GetDone())
				require.Equal(t, w.state.Cluster().FeatureLevel, resp.GetFeatureLevel())
				got := map[string]string(nil)
				for _, u := range append(withMissing(resp.GetMembers()), withMissing(resp.GetNodes())...) {
					if got == nil {
						got = map[string]string{}
					}
					got[u.GetId()] = u.GetMissing()
				}
				require.Equal(t, tc.missing, got)
			}
			want := before
			if tc.done && tc.at == fsm.Level1 {
				want++
			}
			require.Equal(t, want, w.index, "one command, and only when the level rose")
			var out bytes.Buffer
			require.NoError(t, Print(&out, "table", plan))
			require.Contains(t, out.String(), plan.GetSummary())
		})
	}
}

// S72: without a quorum the level is unknown.
func TestUpgradeNeedsAQuorum(t *testing.T) {
	w := newEnvAtLevel(t, fsm.Level1, nil)
	w.quorum = errNoQuorum
	for range 2 {
		_, err := w.server.UpgradeStatus(t.Context(), &adminpb.UpgradeRequest{})
		require.Error(t, err)
		_, err = w.server.FinishUpgrade(t.Context(), &adminpb.UpgradeRequest{})
		require.Error(t, err)
	}
}
