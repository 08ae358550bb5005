package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// UpgradeStatus requests the feature level of every member of the configuration, and reads with which
// level each node registered. Nodes that were recorded as lost do not count.
func (s *Server) UpgradeStatus(ctx context.Context, req *adminpb.UpgradeRequest) (*adminpb.UpgradeResponse, error) {
	resp := &adminpb.UpgradeResponse{Target: cmp.Or(req.GetLevel(), fsm.MaxFeatureLevel)}
	sites := nodeSites{}
	index, err := s.Cluster.Read(ctx, func(st *fsm.State) error {
		resp.FeatureLevel = st.Cluster().FeatureLevel
		for n := range st.Nodes() {
			if n.State != fsm.NodeLost {
				resp.Nodes = append(resp.Nodes, nodeUnderstanding(n, resp.GetTarget()))
				sites.add(n)
			}
		}
		return nil
	})
	if err != nil {
		return nil, s.Error(err)
	}
	askCtx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	members := s.Cluster.Members(askCtx, index)
	resp.Members = mapSlice(members, func(m Member) *adminpb.Understanding { return memberUnderstanding(m, resp.GetTarget()) })
	slices.SortFunc(resp.GetMembers(), func(a, b *adminpb.Understanding) int { return cmp.Compare(a.GetId(), b.GetId()) })
	resp.Index = index
	if resp.GetFeatureLevel() < fsm.Level2 && resp.GetTarget() >= fsm.Level2 {
		resp.Warnings = sites.warnings(members)
	}
	summarizeUpgrade(resp)
	return resp, nil
}

// FinishUpgrade proposes the level when every member and node supports it. The leader checks the members
// again, and Apply checks the nodes again: a change in between makes the command a rejection.
func (s *Server) FinishUpgrade(ctx context.Context, req *adminpb.UpgradeRequest) (*adminpb.UpgradeResponse, error) {
	c, err := s.newCall(ctx, req.GetReason())
	if err != nil {
		return nil, err
	}
	resp, err := s.UpgradeStatus(ctx, req)
	if err != nil || resp.GetDone() || !resp.GetReady() {
		return resp, err
	}
	c.level = max(c.level, resp.GetTarget()) // the entry that raises the level is of the new one
	if c, err = c.requireKept(); err != nil {
		return nil, err
	}
	c.follows(resp.GetSummary(), nil)
	out, err := s.Cluster.Propose(ctx, c.stamp(&fsmpb.Command{Body: &fsmpb.Command_SetFeatureLevel{
		SetFeatureLevel: &fsmpb.SetFeatureLevel{Level: resp.GetTarget()}}}))
	if err != nil {
		return nil, s.Error(err)
	}
	resp.Index, resp.FeatureLevel = out.GetIndex(), resp.GetTarget()
	summarizeUpgrade(resp)
	return resp, nil
}

func nodeUnderstanding(n *fsm.Node, target uint32) *adminpb.Understanding {
	u := &adminpb.Understanding{Id: string(n.ID), Version: n.Version, FeatureLevel: n.FeatureLevel}
	if n.FeatureLevel < target {
		u.Missing = "upgrade it, or record it as lost when it is gone for good"
	}
	return u
}

func memberUnderstanding(m Member, target uint32) *adminpb.Understanding {
	u := &adminpb.Understanding{Id: cmp.Or(m.Name, m.Address), Version: m.Version, FeatureLevel: m.Level}
	switch {
	case m.Err != nil:
		u.FeatureLevel, u.Missing = 0, "it does not answer: start it, or remove it ("+m.Err.Error()+")"
	case m.Level < target:
		u.Missing = "upgrade it"
	}
	return u
}

// summarizeUpgrade sets Done, Ready and Summary from the levels.
func summarizeUpgrade(resp *adminpb.UpgradeResponse) {
	missing := len(withMissing(resp.GetMembers())) + len(withMissing(resp.GetNodes()))
	resp.Done, resp.Ready = resp.GetFeatureLevel() >= resp.GetTarget(), missing == 0
	switch {
	case resp.GetDone():
		resp.Summary = fmt.Sprintf("the cluster runs at feature level %d: nothing is to be raised", resp.GetFeatureLevel())
	case resp.GetReady():
		resp.Summary = fmt.Sprintf("all understand feature level %d, the cluster runs at %d: after the raise no older build can take part, and there is no way back",
			resp.GetTarget(), resp.GetFeatureLevel())
	default:
		resp.Summary = fmt.Sprintf("feature level %d waits for %d of %d members and nodes; the cluster runs at %d, and a way back is open",
			resp.GetTarget(), missing, len(resp.GetMembers())+len(resp.GetNodes()), resp.GetFeatureLevel())
	}
}

func withMissing(all []*adminpb.Understanding) []*adminpb.Understanding {
	return slices.DeleteFunc(slices.Clone(all), func(u *adminpb.Understanding) bool { return u.GetMissing() == "" })
}
